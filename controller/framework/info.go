package framework

import (
	"iter"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// Info is one TrainJob on its way to objects: the runtime's template with the
// job's patches merged in, which the plugins change one after the other.
type Info struct {
	// Labels and Annotations are the JobSet's.
	Labels      map[string]string
	Annotations map[string]string

	// MLPolicy and PodGroupPolicy are the runtime's; nil if it has none.
	MLPolicy       *v1alpha1.MLPolicy
	PodGroupPolicy *v1alpha1.PodGroupPolicy

	// RuntimeMeta and NamespaceMeta are the metadata of the runtime and of the
	// TrainJob's namespace.
	RuntimeMeta   metav1.ObjectMeta
	NamespaceMeta metav1.ObjectMeta

	// Cluster is the HPC cluster that the TrainJob wishes to run on, "" for none.
	Cluster string

	// Trainer is the TrainJob's spec.trainer, which plugins may change: what
	// stands here at the end reaches the training container. Nil if the TrainJob
	// has none.
	Trainer *v1alpha1.Trainer

	// Unpatched is the JobSet's spec as the runtime has it, without the TrainJob's
	// patches. It is for reading only.
	Unpatched *jobsetv1alpha2.JobSetSpec
	// Template is the JobSet's spec.
	Template *jobsetv1alpha2.JobSetSpec
	// PodSets are the replicated jobs of Template, in its order.
	PodSets []PodSet

	// PodLabels and PodAnnotations are added to the pods of every replicated job.
	PodLabels      map[string]string
	PodAnnotations map[string]string
}

// PodSet is the pods of one replicated job.
type PodSet struct {
	// Name is the replicated job's.
	Name string
	// Ancestor is the part of the TrainJob that it carries out, "" if none.
	Ancestor string
	// Count is the number of pods of each Job; it becomes the Job's parallelism
	// and completions.
	Count int32
	// Job is the Job's template, part of Info.Template.
	Job *batchv1.JobTemplateSpec
	// Replicas is the number of Jobs.
	Replicas int32
	// Requests are those of one pod.
	Requests corev1.ResourceList
	// Endpoints are the pods' host names with their subdomain, by Job and then
	// by pod. They are known once the pod network has been identified, and made
	// one by one: a user may write any number of nodes.
	Endpoints iter.Seq[string]
}

// Pod is the spec of the pods.
func (p *PodSet) Pod() *corev1.PodSpec {
	return &p.Job.Spec.Template.Spec
}

// IsStep tells whether the pods carry out a part of the TrainJob that is known:
// then they are one Job, whatever number of Jobs the runtime says.
func (p *PodSet) IsStep() bool {
	switch p.Ancestor {
	case v1alpha1.DatasetInitializer, v1alpha1.ModelInitializer, v1alpha1.AncestorTrainer:
		return true
	}
	return false
}

// Container finds a container by name, nil if there is none.
func (p *PodSet) Container(name string) *corev1.Container {
	return find(p.Pod().Containers, name)
}

// AnyContainer finds a container or an init container by name, nil if there is
// none.
func (p *PodSet) AnyContainer(name string) *corev1.Container {
	if c := p.Container(name); c != nil {
		return c
	}
	return find(p.Pod().InitContainers, name)
}

// TrainingContainer is the container that trains: the one called "node" or, as
// in the KEP's examples, "trainer" or, where the pod template itself is marked as
// the trainer's, its first. It is nil if there is none of them.
func (p *PodSet) TrainingContainer() *corev1.Container {
	if c := p.Container(v1alpha1.ContainerNode); c != nil {
		return c
	}
	if c := p.Container(v1alpha1.ContainerTrainer); c != nil {
		return c
	}
	marked := p.Job.Spec.Template.Labels[v1alpha1.LabelAncestor] == v1alpha1.AncestorTrainer
	if _, released := p.Job.Labels[v1alpha1.LabelAncestor]; marked && !released && len(p.Pod().Containers) > 0 {
		return &p.Pod().Containers[0]
	}
	return nil
}

func find(containers []corev1.Container, name string) *corev1.Container {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &containers[i]
}

// PodSet finds the pods of a replicated job, nil if there is none of that name.
func (i *Info) PodSet(name string) *PodSet {
	return i.podSet(func(p PodSet) bool { return p.Name == name })
}

// Step finds the pods that carry out a part of the TrainJob, nil if there are
// none.
func (i *Info) Step(ancestor string) *PodSet {
	return i.podSet(func(p PodSet) bool { return p.Ancestor == ancestor })
}

func (i *Info) podSet(is func(PodSet) bool) *PodSet {
	at := slices.IndexFunc(i.PodSets, is)
	if at < 0 {
		return nil
	}
	return &i.PodSets[at]
}

// TrainingContainer is the container that trains in the pods of the trainer
// step, nil if there is none.
func (i *Info) TrainingContainer() *corev1.Container {
	if step := i.Step(v1alpha1.AncestorTrainer); step != nil {
		return step.TrainingContainer()
	}
	return nil
}

// LauncherIsNode tells whether an MPI runtime's launcher is one of the training
// nodes.
func (i *Info) LauncherIsNode() bool {
	return i.MLPolicy != nil && i.MLPolicy.MPI != nil &&
		i.MLPolicy.MPI.RunLauncherAsNode != nil && *i.MLPolicy.MPI.RunLauncherAsNode
}

// Subdomain is that of the pods' host names.
func (i *Info) Subdomain(trainJob *v1alpha1.TrainJob) string {
	if i.Template.Network != nil && i.Template.Network.Subdomain != "" {
		return i.Template.Network.Subdomain
	}
	return trainJob.Name
}
