package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/translate/wellknown"
)

// Validate refuses a cluster's name that no node can have as a label, and warns
// of what will have no effect.
func (*Plugin) Validate(_ context.Context, info *framework.Info, _, trainJob *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	warnings := unknownNames(trainJob)
	if info.Cluster == "" {
		return append(warnings, idleWishes(trainJob)...), nil
	}
	if problems := validation.IsValidLabelValue(info.Cluster); len(problems) > 0 {
		return warnings, field.ErrorList{field.Invalid(origin(info, trainJob), info.Cluster, fmt.Sprintf(
			"must be the value of the label %s of virtual nodes, and is no label value: %s",
			wellknown.Cluster, strings.Join(problems, "; ")))}
	}
	if len(chosen(info)) == 0 {
		warnings = append(warnings, fmt.Sprintf(
			"nothing will run on the cluster %q: no pod template of the runtime %s asks for a GPU, and none has the label %s=%s",
			info.Cluster, trainJob.Spec.RuntimeRef.Name, v1alpha1.LabelAncestor, v1alpha1.AncestorTrainer))
	}
	return warnings, nil
}

// unknownNames warns of annotations that look like ours and are not, such as
// misspelt ones, of those that are not for TrainJobs, and of options that are labels.
func unknownNames(trainJob *v1alpha1.TrainJob) admission.Warnings {
	ours := func(name string) bool { return strings.HasPrefix(name, wellknown.Domain+"/") }
	var warnings admission.Warnings
	for _, name := range slices.Sorted(maps.Keys(trainJob.Annotations)) {
		if why := idle(name); why != "" && ours(name) {
			warnings = append(warnings, fmt.Sprintf("the annotation %s has no effect%s", name, why))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(trainJob.Labels)) {
		if ours(name) && name != wellknown.Cluster {
			warnings = append(warnings, fmt.Sprintf("the label %s has no effect: options are annotations", name))
		}
	}
	return warnings
}

// idle says why an annotation of ours has no effect on a TrainJob, "" if it has one.
func idle(name string) string {
	isWish := slices.ContainsFunc(wellknown.Wishes(), func(w wellknown.Wish) bool { return w.Name == name })
	switch {
	case isWish, name == wellknown.Cluster, name == wellknown.AnnotationMPIImplementation:
		return ""
	case name == wellknown.AnnotationMPISlots:
		return " on a TrainJob: spec.trainer.numProcPerNode is the number of MPI processes of a pod"
	case slices.Contains(wellknown.Annotations(), name):
		return " on a TrainJob: it belongs on a pod or its JobSet, as in the runtime's template"
	}
	return ": there is none of this name"
}

// idleWishes warns of the TrainJob's wishes if it names no cluster. Those of a
// runtime or a namespace are for the TrainJobs that do, and slurm-bridge's may be
// for slurm-bridge.
func idleWishes(trainJob *v1alpha1.TrainJob) admission.Warnings {
	var warnings admission.Warnings
	for _, wish := range wellknown.Wishes() {
		if trainJob.Annotations[wish.Name] != "" {
			warnings = append(warnings, fmt.Sprintf(
				"the annotation %s has no effect: neither the TrainJob nor its runtime nor its namespace names a cluster in the annotation %s",
				wish.Name, wellknown.Cluster))
		}
	}
	return warnings
}

// origin is the field that the cluster's name comes from.
func origin(info *framework.Info, trainJob *v1alpha1.TrainJob) *field.Path {
	origins := []struct {
		meta *metav1.ObjectMeta
		path *field.Path
	}{
		{&trainJob.ObjectMeta, field.NewPath("metadata", "annotations").Key(wellknown.Cluster)},
		{&info.RuntimeMeta, field.NewPath("spec", "runtimeRef")},
	}
	for _, o := range origins {
		if o.meta.Annotations[wellknown.Cluster] == info.Cluster {
			return o.path
		}
	}
	return field.NewPath("metadata", "namespace")
}
