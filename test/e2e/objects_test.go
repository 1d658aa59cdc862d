package e2e

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/wellknown"
)

// resources is what a pod asks for: CPUs, and GPUs unless "0".
func resources(cpus, gpus string) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpus),
		corev1.ResourceMemory: resource.MustParse("256Mi"),
	}}
	if gpus != "0" {
		r.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
	}
	return r
}

// spec is a pod for the group's virtual node that runs a shell script.
func (w *world) spec(script string, r corev1.ResourceRequirements) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		NodeSelector:  map[string]string{corev1.LabelHostname: w.env.Name},
		Tolerations:   []corev1.Toleration{{Key: wellknown.TaintKey, Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "main", Image: "host", Command: []string{"sh", "-c", script}, Resources: r,
		}},
		TerminationGracePeriodSeconds: ptr.To[int64](5),
	}
}

// makePod is a pod that runs a shell script.
func (w *world) makePod(name, script string, r corev1.ResourceRequirements) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: w.spec(script, r)}
}

// makeJob is a Job of one pod.
func (w *world) makeJob(name, script string, r corev1.ResourceRequirements) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		BackoffLimit: ptr.To[int32](0),
		Template:     corev1.PodTemplateSpec{Spec: w.spec(script, r)},
	}}
}

// replicated is one replicated job of a JobSet: so many pods of a script.
func (w *world) replicated(name, script string, pods int32, r corev1.ResourceRequirements) jobset.ReplicatedJob {
	job := w.makeJob(name, script, r)
	job.Spec.Parallelism, job.Spec.Completions = ptr.To(pods), ptr.To(pods)
	return jobset.ReplicatedJob{Name: name, Replicas: 1, Template: batchv1.JobTemplateSpec{Spec: job.Spec}}
}

// makeJobSet is a JobSet of these replicated jobs.
func makeJobSet(name string, jobs ...jobset.ReplicatedJob) *jobset.JobSet {
	return &jobset.JobSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: jobset.JobSetSpec{ReplicatedJobs: jobs}}
}
