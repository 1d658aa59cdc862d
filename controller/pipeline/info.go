package pipeline

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/translate/wellknown"
)

// Input is all that objects are built from.
type Input struct {
	TrainJob *v1alpha1.TrainJob
	// RuntimeMeta and Runtime are the runtime's metadata and spec.
	RuntimeMeta metav1.ObjectMeta
	Runtime     v1alpha1.TrainingRuntimeSpec
	// NamespaceMeta is the metadata of the TrainJob's namespace.
	NamespaceMeta metav1.ObjectMeta
}

// NewInfo merges the TrainJob's patches and resources into the runtime's
// template. The input stays as it is.
func NewInfo(in Input) (*framework.Info, error) {
	spec, err := patchedTemplate(in.Runtime.Template.Spec, in.TrainJob.Spec.RuntimePatches)
	if err != nil {
		return nil, err
	}
	info := &framework.Info{
		Labels:         copied(in.Runtime.Template.Labels),
		Annotations:    copied(in.Runtime.Template.Annotations),
		MLPolicy:       in.Runtime.MLPolicy.DeepCopy(),
		PodGroupPolicy: in.Runtime.PodGroupPolicy.DeepCopy(),
		RuntimeMeta:    in.RuntimeMeta,
		NamespaceMeta:  in.NamespaceMeta,
		Cluster:        wish(wellknown.Cluster, in.TrainJob.ObjectMeta, in.RuntimeMeta, in.NamespaceMeta),
		Trainer:        in.TrainJob.Spec.Trainer.DeepCopy(),
		Unpatched:      &in.Runtime.Template.Spec,
		Template:       spec,
		PodLabels:      map[string]string{},
		PodAnnotations: map[string]string{},
	}
	for _, patch := range in.TrainJob.Spec.RuntimePatches {
		if t := templateOf(patch); t != nil && t.Metadata != nil {
			maps.Copy(info.Labels, t.Metadata.Labels)
			maps.Copy(info.Annotations, t.Metadata.Annotations)
		}
	}
	for i := range spec.ReplicatedJobs {
		info.PodSets = append(info.PodSets, podSet(&spec.ReplicatedJobs[i], info))
	}
	return info, nil
}

// wish is the value of an annotation, or else a label, of the first object that
// has it.
func wish(name string, from ...metav1.ObjectMeta) string {
	for _, meta := range from {
		if v := meta.Annotations[name]; v != "" {
			return v
		}
		if v := meta.Labels[name]; v != "" {
			return v
		}
	}
	return ""
}

func copied(m map[string]string) map[string]string {
	c := make(map[string]string, len(m))
	maps.Copy(c, m)
	return c
}

func podSet(job *jobsetv1alpha2.ReplicatedJob, info *framework.Info) framework.PodSet {
	p := framework.PodSet{
		Name:     job.Name,
		Ancestor: ancestor(job),
		Count:    ptr.Deref(job.Template.Spec.Parallelism, 1),
		Job:      &job.Template,
		Replicas: max(job.Replicas, 1), // the CRD's default; a runtime from a file may lack it
	}
	if p.IsStep() {
		p.Replicas = 1
	}
	trains := p.Ancestor == v1alpha1.AncestorTrainer && info.MLPolicy != nil
	if trains {
		p.Count = ptr.Deref(info.MLPolicy.NumNodes, 1)
	}
	p.Count = max(p.Count, 1)
	if trains || info.LauncherIsNode() && p.Name == v1alpha1.JobNode {
		mergeResources(p.TrainingContainer(), info.Trainer)
	}
	p.Requests = resourcehelper.PodRequests(&corev1.Pod{Spec: *p.Pod()}, resourcehelper.PodResourcesOptions{})
	return p
}

// ancestor is the label on the Job's template or, as in the KEP's examples, on
// the pod's.
func ancestor(job *jobsetv1alpha2.ReplicatedJob) string {
	if a, ok := job.Template.Labels[v1alpha1.LabelAncestor]; ok {
		return a
	}
	return job.Template.Spec.Template.Labels[v1alpha1.LabelAncestor]
}

// mergeResources lays the TrainJob's resources over the container's, key by key.
func mergeResources(c *corev1.Container, trainer *v1alpha1.Trainer) {
	if c == nil || trainer == nil || trainer.ResourcesPerNode == nil {
		return
	}
	merge := func(into *corev1.ResourceList, from corev1.ResourceList) {
		if *into == nil && len(from) > 0 {
			*into = corev1.ResourceList{}
		}
		maps.Copy(*into, from)
	}
	merge(&c.Resources.Limits, trainer.ResourcesPerNode.Limits)
	merge(&c.Resources.Requests, trainer.ResourcesPerNode.Requests)
	mergeClaims(&c.Resources.Claims, trainer.ResourcesPerNode.Claims)
}

func mergeClaims(into *[]corev1.ResourceClaim, from []corev1.ResourceClaim) {
	for _, claim := range from {
		known := false
		for i := range *into {
			if (*into)[i].Name == claim.Name {
				(*into)[i], known = claim, true
			}
		}
		if !known {
			*into = append(*into, claim)
		}
	}
}
