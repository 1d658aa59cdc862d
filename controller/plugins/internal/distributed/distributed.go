package distributed

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// SetNodes gives the trainer step as many pods as the TrainJob has numNodes, if
// it says so, and returns how many there are: 1 if there is no trainer step.
func SetNodes(info *framework.Info) int32 {
	step := info.Step(v1alpha1.AncestorTrainer)
	if step == nil {
		return 1
	}
	if info.Trainer != nil && info.Trainer.NumNodes != nil {
		step.Count = *info.Trainer.NumNodes
	}
	return step.Count
}

// Host is the name by which the other pods find the pod of rank 0.
//
// Kubeflow Trainer has always job "node" and the TrainJob's name as subdomain.
// A name that does not resolve helps nobody, so a runtime with a subdomain of its
// own gets that, and one that has no job "node" gets the trainer step's job.
func Host(info *framework.Info, trainJob *v1alpha1.TrainJob) string {
	return fmt.Sprintf("%s-%s-0-0.%s", trainJob.Name, job(info), info.Subdomain(trainJob))
}

func job(info *framework.Info) string {
	if step := info.Step(v1alpha1.AncestorTrainer); step != nil && info.PodSet(v1alpha1.JobNode) == nil {
		return step.Name
	}
	return v1alpha1.JobNode
}

// Port is where rank 0 listens.
func Port() string {
	return strconv.Itoa(int(v1alpha1.TrainerPort))
}

// Address is Host and Port.
func Address(info *framework.Info, trainJob *v1alpha1.TrainJob) string {
	return Host(info, trainJob) + ":" + Port()
}

// Rank is a variable of that name with the pod's rank, which is its index in
// its Job.
func Rank(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: fmt.Sprintf("metadata.annotations['%s']", batchv1.JobCompletionIndexAnnotation),
		},
	}}
}

// Expose declares the port among the container's.
func Expose(c *corev1.Container) {
	framework.UpsertPorts(&c.Ports, corev1.ContainerPort{ContainerPort: v1alpha1.TrainerPort})
}
