package translatetest

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// JobSetBuilder makes a JobSet, step by step. Dependencies are of the
// replicated job that was added last.
type JobSetBuilder struct {
	js jobset.JobSet
}

// MakeJobSet begins a JobSet of the namespace default.
func MakeJobSet(name string) *JobSetBuilder {
	return &JobSetBuilder{js: jobset.JobSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID("uid-" + name),
	}}}
}

// Obj is the JobSet so far.
func (b *JobSetBuilder) Obj() *jobset.JobSet { return b.js.DeepCopy() }

// Jobs adds a replicated job of so many jobs with so many pods each, made like
// the given pod.
func (b *JobSetBuilder) Jobs(name string, replicas, pods int32, pod *corev1.Pod) *JobSetBuilder {
	b.js.Spec.ReplicatedJobs = append(b.js.Spec.ReplicatedJobs, jobset.ReplicatedJob{
		Name: name, Replicas: replicas,
		Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			Parallelism: ptr.To(pods), Completions: ptr.To(pods),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: pod.Annotations, Labels: pod.Labels},
				Spec:       pod.Spec,
			},
		}},
	})
	return b
}

// DependsOn has the last replicated job wait for another.
func (b *JobSetBuilder) DependsOn(name string, status jobset.DependsOnStatus) *JobSetBuilder {
	last := &b.js.Spec.ReplicatedJobs[len(b.js.Spec.ReplicatedJobs)-1]
	last.DependsOn = append(last.DependsOn, jobset.DependsOn{Name: name, Status: status})
	return b
}

// Spec changes what has no method of its own.
func (b *JobSetBuilder) Spec(change func(*jobset.JobSetSpec)) *JobSetBuilder {
	change(&b.js.Spec)
	return b
}
