package framework

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// ResourcesPerNode are those that decide the number of processes: the
// TrainJob's if it has any, instead of the runtime's.
func (i *Info) ResourcesPerNode() corev1.ResourceRequirements {
	if i.Trainer != nil && i.Trainer.ResourcesPerNode != nil {
		return *i.Trainer.ResourcesPerNode
	}
	for n := range i.PodSets {
		p := &i.PodSets[n]
		if p.Name != v1alpha1.JobNode && p.Ancestor != v1alpha1.AncestorTrainer {
			continue
		}
		if c := p.TrainingContainer(); c != nil {
			return c.Resources
		}
	}
	return corev1.ResourceRequirements{}
}

// GPUs counts the GPUs among a container's requests or, if it requests none,
// its limits: the resource whose name has "gpu" in it.
func GPUs(resources corev1.ResourceRequirements) int {
	if n := gpus(resources.Requests); n != 0 {
		return n
	}
	return gpus(resources.Limits)
}

// gpus takes the largest, so that a list with several kinds has one answer.
func gpus(list corev1.ResourceList) int {
	var most int64
	for name, quantity := range list {
		if strings.Contains(strings.ToLower(string(name)), "gpu") {
			most = max(most, quantity.Value())
		}
	}
	return int(most)
}
