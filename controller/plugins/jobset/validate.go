package jobset

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Validate refuses initializers that the runtime has no place for, and patches
// that are not allowed. The texts are Kubeflow Trainer's. What JobSet itself
// will refuse is a warning: see jobSetWarnings.
func (p *Plugin) Validate(ctx context.Context, info *framework.Info, old, new *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	errs := validateNumNodes(new)
	errs = append(errs, validateInitializers(info, new)...)
	errs = append(errs, p.validateChange(ctx, old, new)...)
	errs = append(errs, validatePatches(info, new)...)
	return jobSetWarnings(info, new), errs
}

// maxNodes is the most pods that a Job takes whose pods have indexes, as a
// JobSet's have.
const maxNodes = 100_000

// validateNumNodes refuses what no Job would take as its parallelism, and what
// Kubeflow Trainer finds out only when the Job is made.
func validateNumNodes(trainJob *v1alpha1.TrainJob) field.ErrorList {
	if trainJob.Spec.Trainer == nil {
		return nil
	}
	n := ptr.Deref(trainJob.Spec.Trainer.NumNodes, 0)
	if n >= 0 && n <= maxNodes {
		return nil
	}
	path := field.NewPath("spec", "trainer", "numNodes")
	return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("must be between 0 and %d", maxNodes))}
}

func runtimeRefPath() *field.Path     { return field.NewPath("spec", "runtimeRef") }
func runtimePatchesPath() *field.Path { return field.NewPath("spec", "runtimePatches") }

func validateInitializers(info *framework.Info, trainJob *v1alpha1.TrainJob) field.ErrorList {
	var errs field.ErrorList
	for _, s := range initializers(trainJob) {
		if problem := missing(info, s); problem != "" {
			errs = append(errs, field.Invalid(runtimeRefPath(), trainJob.Spec.RuntimeRef, problem))
		}
	}
	return errs
}

// missing is what the runtime lacks for an initializer, "" if nothing.
func missing(info *framework.Info, s initializer) string {
	podSet := info.PodSet(s.step)
	if podSet == nil {
		return fmt.Sprintf("must have %s job when trainJob is configured with input %s", s.step, s.config)
	}
	if podSet.AnyContainer(s.step) == nil {
		return fmt.Sprintf("must have container with name - %s in the %s job", s.step, s.step)
	}
	fills := func(m corev1.VolumeMount) bool { return m.Name == v1alpha1.VolumeInitializer }
	if c := podSet.Container(s.step); c == nil || !slices.ContainsFunc(c.VolumeMounts, fills) {
		return fmt.Sprintf("must have volumeMount with name - %s in container %s of the %s job",
			v1alpha1.VolumeInitializer, s.step, s.step)
	}
	return ""
}

// validateChange allows other patches only while nothing runs. That the TrainJob
// is suspended before or after is enough, so that Kueue can change both in one
// request.
func (p *Plugin) validateChange(ctx context.Context, old, new *v1alpha1.TrainJob) field.ErrorList {
	if old == nil || equality.Semantic.DeepEqual(old.Spec.RuntimePatches, new.Spec.RuntimePatches) {
		return nil
	}
	path := runtimePatchesPath()
	if !ptr.Deref(old.Spec.Suspend, false) && !ptr.Deref(new.Spec.Suspend, false) {
		return field.ErrorList{field.Forbidden(path,
			"RuntimePatches can only be modified when the TrainJob is suspended before or after the update")}
	}
	jobSet := &jobsetv1alpha2.JobSet{}
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(new), jobSet); client.IgnoreNotFound(err) != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("reading the JobSet, to see whether it is active: %w", err))}
	}
	var errs field.ErrorList
	for _, job := range jobSet.Status.ReplicatedJobsStatus {
		if job.Active > 0 {
			errs = append(errs, field.Forbidden(path,
				fmt.Sprintf("RuntimePatches cannot be modified when the JobSet's ReplicatedJob %s is still active", job.Name)))
		}
	}
	return errs
}

// validatePatches looks at the runtime without the patches: merging adds what a
// patch names wrongly.
func validatePatches(info *framework.Info, trainJob *v1alpha1.TrainJob) field.ErrorList {
	var errs field.ErrorList
	refuse := func(text string, args ...any) {
		errs = append(errs, field.Invalid(runtimePatchesPath(), trainJob.Spec.RuntimePatches, fmt.Sprintf(text, args...)))
	}
	for _, patch := range trainJob.Spec.RuntimePatches {
		errs = append(errs, validation.IsDomainPrefixedPath(runtimePatchesPath().Child("manager"), patch.Manager)...)
		for _, jobPatch := range jobPatches(patch) {
			i := slices.IndexFunc(info.Unpatched.ReplicatedJobs, func(j jobsetv1alpha2.ReplicatedJob) bool { return j.Name == jobPatch.Name })
			if i < 0 {
				refuse("must not have replicated job that doesn't exist in the runtime job template")
				continue
			}
			pod, podPatch := info.Unpatched.ReplicatedJobs[i].Template.Spec.Template.Spec, podPatch(jobPatch)
			for _, c := range podPatch.InitContainers {
				if !has(pod.InitContainers, c.Name) {
					refuse("must not have initContainer that doesn't exist in the runtime job %s", jobPatch.Name)
				}
			}
			for _, c := range podPatch.Containers {
				if !has(pod.Containers, c.Name) {
					refuse("must not have container that doesn't exist in the runtime job %s", jobPatch.Name)
				} else if name := ownContainer(info.PodSet(jobPatch.Name), c.Name); name != "" && len(c.Env) > 0 {
					refuse("must not have envs for the %s, %s, %s containers", v1alpha1.DatasetInitializer, v1alpha1.ModelInitializer, name)
				}
			}
		}
	}
	return errs
}

// ownContainer tells whether the TrainJob's own sections set a container's
// environment, so that no patch may. It returns the name that the message gives
// the training container, "" if the patch may. Kubeflow goes by the names alone,
// in every job; the KEP's name of the training container counts only where the
// container trains.
func ownContainer(podSet *framework.PodSet, name string) string {
	switch name {
	case v1alpha1.DatasetInitializer, v1alpha1.ModelInitializer, v1alpha1.ContainerNode:
		return v1alpha1.ContainerNode
	case v1alpha1.ContainerTrainer:
		trains := podSet.Ancestor == v1alpha1.AncestorTrainer || podSet.Name == v1alpha1.JobNode
		if c := podSet.TrainingContainer(); trains && c != nil && c.Name == name {
			return name
		}
	}
	return ""
}

func has(containers []corev1.Container, name string) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Name == name })
}

func jobPatches(patch v1alpha1.RuntimePatch) []v1alpha1.ReplicatedJobPatch {
	if s := patch.TrainingRuntimeSpec; s != nil && s.Template != nil && s.Template.Spec != nil {
		return s.Template.Spec.ReplicatedJobs
	}
	return nil
}

// podPatch is a job patch's change of the pods, empty if it has none.
func podPatch(patch v1alpha1.ReplicatedJobPatch) v1alpha1.PodSpecPatch {
	t := patch.Template
	if t == nil || t.Spec == nil || t.Spec.Template == nil || t.Spec.Template.Spec == nil {
		return v1alpha1.PodSpecPatch{}
	}
	return *t.Spec.Template.Spec
}
