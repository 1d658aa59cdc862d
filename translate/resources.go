package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/gangline/gangline/translate/wellknown"
)

// DefaultGPUResource is the extended resource that stands for GPUs where the
// site names no other.
const DefaultGPUResource corev1.ResourceName = "nvidia.com/gpu"

func gpuResource(name corev1.ResourceName) corev1.ResourceName {
	return cmp.Or(name, DefaultGPUResource)
}

const mebibyte = 1 << 20

// PodResources is what a pod of this spec needs on an HPC node, by the rule of
// the scheduler (component-helpers' PodRequests): the sum of the containers
// and sidecars, or an init container's need where it is larger, or what the
// pod itself requests. A limit without a request counts as a request. CPUs and
// MiB are rounded up. The GPU resource is DefaultGPUResource where it is empty.
func PodResources(spec corev1.PodSpec, gpu corev1.ResourceName) Resources {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	for i := range pod.Spec.InitContainers {
		requestLimits(&pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		requestLimits(&pod.Spec.Containers[i].Resources)
	}
	if r := pod.Spec.Resources; r != nil {
		// The pod's own limit stands for a request only where no container
		// requests the resource, as the API server's defaulting has it.
		requested := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{SkipPodLevelResources: true})
		for name := range requested {
			delete(r.Limits, name)
		}
		requestLimits(r)
	}
	total := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
	gpus := total[gpuResource(gpu)]
	return Resources{
		CPUs:      max(1, int(total.Cpu().Value())),
		MemoryMiB: (total.Memory().Value() + mebibyte - 1) / mebibyte,
		GPUs:      int(gpus.Value()),
	}
}

// requestLimits makes requests of the limits that have none.
func requestLimits(r *corev1.ResourceRequirements) {
	for name, q := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = q
	}
}

// Fits tells whether one of the HPC nodes is large enough, used or not.
func Fits(r Resources, nodes []Resources) bool {
	return slices.ContainsFunc(nodes, func(n Resources) bool {
		return r.CPUs <= n.CPUs && r.MemoryMiB <= n.MemoryMiB && r.GPUs <= n.GPUs
	})
}

// checkSize refuses what no HPC node could ever satisfy: the workload manager
// would keep it in its queue for ever.
func checkSize(r Resources, nodes []Resources) *Rejection {
	if len(nodes) == 0 || Fits(r, nodes) {
		return nil
	}
	var kinds []string
	for _, n := range nodes {
		if kind := n.describe(); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return &Rejection{
		Reason: wellknown.ReasonDoesNotFit,
		Field:  "spec.containers[*].resources",
		Message: fmt.Sprintf("The pod needs %s on one HPC node, and no node has as much: they have %s. Request less, or use more and smaller pods.",
			r.describe(), strings.Join(kinds, " or ")),
	}
}

func (r Resources) describe() string {
	return fmt.Sprintf("%d CPUs, %d MiB and %d GPUs", r.CPUs, r.MemoryMiB, r.GPUs)
}
