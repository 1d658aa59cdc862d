package jobset

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Build makes the JobSet, which has the TrainJob's name.
func (*Plugin) Build(_ context.Context, info *framework.Info, trainJob *v1alpha1.TrainJob) ([]framework.Component, error) {
	return []framework.Component{{
		Kind: &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{
			Name: trainJob.Name, Namespace: trainJob.Namespace,
		}},
		Policy: framework.UntilStarted,
		Object: func() (client.Object, error) { return object(info, trainJob), nil },
	}}, nil
}

// object leaves info as it is, so it may be called more than once.
func object(info *framework.Info, trainJob *v1alpha1.TrainJob) *jobsetv1alpha2.JobSet {
	jobSet := &jobsetv1alpha2.JobSet{
		TypeMeta: metav1.TypeMeta{
			APIVersion: jobsetv1alpha2.GroupVersion.String(),
			Kind:       "JobSet",
		},
		ObjectMeta: framework.ChildMeta(trainJob, trainJob.Name),
		Spec:       *info.Template.DeepCopy(),
	}
	jobSet.Labels = maps.Clone(info.Labels)
	jobSet.Annotations = maps.Clone(info.Annotations)
	jobSet.Spec.Suspend = nil // the template's own counts for nothing
	if suspend := trainJob.Spec.Suspend; suspend != nil {
		jobSet.Spec.Suspend = ptr.To(*suspend)
	}
	sections := initializers(trainJob)
	for i, podSet := range info.PodSets {
		job := &jobSet.Spec.ReplicatedJobs[i]
		podSet.Job = &job.Template // of the copy
		setCounts(job, &podSet)
		for _, s := range sections {
			if s.step == podSet.Ancestor {
				s.apply(podSet.Container(s.step))
			}
		}
		applyTrainer(info, &podSet)
		meta := &job.Template.Spec.Template.ObjectMeta
		add(&meta.Labels, info.PodLabels)
		add(&meta.Annotations, info.PodAnnotations)
	}
	return jobSet
}

// setCounts makes the pod count explicit, and that a step of the TrainJob is one
// Job, as Kubeflow Trainer does.
func setCounts(job *jobsetv1alpha2.ReplicatedJob, podSet *framework.PodSet) {
	job.Template.Spec.Parallelism = ptr.To(podSet.Count)
	job.Template.Spec.Completions = ptr.To(podSet.Count)
	if podSet.IsStep() {
		job.Replicas = podSet.Replicas
	}
}

// applyTrainer gives the training container what spec.trainer says. The workers
// of an MPI runtime whose launcher is a node too get the environment only: their
// command is the runtime's.
func applyTrainer(info *framework.Info, podSet *framework.PodSet) {
	trainer, c := info.Trainer, podSet.TrainingContainer()
	if trainer == nil || c == nil {
		return
	}
	trains := podSet.Ancestor == v1alpha1.AncestorTrainer
	if trains {
		if trainer.Image != nil {
			c.Image = *trainer.Image
		}
		if trainer.Command != nil { // an empty one takes the runtime's away
			c.Command = trainer.Command
		}
		if trainer.Args != nil {
			c.Args = trainer.Args
		}
	}
	if trains || info.LauncherIsNode() && podSet.Name == v1alpha1.JobNode {
		framework.UpsertEnv(&c.Env, trainer.Env...)
	}
}

// initializer is one section of spec.initializer.
type initializer struct {
	// step is the part of the TrainJob, and the name of the job and the container.
	step string
	// config is what messages call the section.
	config string

	storageURI *string
	env        []corev1.EnvVar
	secretRef  *corev1.LocalObjectReference
}

// initializers are the sections that the TrainJob has.
func initializers(trainJob *v1alpha1.TrainJob) []initializer {
	var sections []initializer
	in := trainJob.Spec.Initializer
	if in != nil && in.Dataset != nil {
		d := in.Dataset
		sections = append(sections, initializer{v1alpha1.DatasetInitializer, "datasetConfig", d.StorageURI, d.Env, d.SecretRef})
	}
	if in != nil && in.Model != nil {
		m := in.Model
		sections = append(sections, initializer{v1alpha1.ModelInitializer, "modelConfig", m.StorageURI, m.Env, m.SecretRef})
	}
	return sections
}

// apply gives the initializer's container, if there is one, what the section
// says. Its env may replace the storage URI.
func (s initializer) apply(c *corev1.Container) {
	if c == nil {
		return
	}
	if s.storageURI != nil {
		framework.UpsertEnv(&c.Env, corev1.EnvVar{Name: v1alpha1.EnvStorageURI, Value: *s.storageURI})
	}
	framework.UpsertEnv(&c.Env, s.env...)
	if s.secretRef != nil {
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *s.secretRef},
		})
	}
}

func add(to *map[string]string, more map[string]string) {
	if *to == nil && len(more) > 0 {
		*to = make(map[string]string, len(more))
	}
	maps.Copy(*to, more)
}
