package translate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/gangline/gangline/provider/spool"
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
// MiB are rounded up. The GPU resource, which stands for GPUs of any type, is
// DefaultGPUResource where it is empty.
func PodResources(spec corev1.PodSpec, gpu corev1.ResourceName, devices DeviceResources) Resources {
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
	gpus, gres := devices.devices(gpu, total)
	bytes := whole(*total.Memory(), math.MaxInt64)
	return Resources{
		CPUs:      max(1, int(whole(*total.Cpu(), mostUnits))),
		MemoryMiB: bytes/mebibyte + min(bytes%mebibyte, 1),
		GPUs:      gpus,
		Gres:      gres,
	}
}

// mostUnits is more CPUs or devices than there are anywhere, and so few that the sum over
// all slots of a gang is still a number.
const mostUnits = 1 << 40

// whole is a quantity in whole units, rounded up; at least 0, and never more than most.
// (A sum of quantities may be larger than any int64, and Value would be anything then.)
func whole(q resource.Quantity, most int64) int64 {
	if q.Cmp(*resource.NewQuantity(most, resource.DecimalSI)) >= 0 {
		return most
	}
	return max(0, q.Value())
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

// limitStorage gives the orders of a pod its limits of ephemeral storage. As with
// kubelet, an init container has none of its own.
func limitStorage(pod *corev1.Pod, orders *spool.PodOrders) {
	limit := func(limits corev1.ResourceList) string {
		if q, ok := limits[corev1.ResourceEphemeralStorage]; ok && q.Sign() > 0 {
			return q.String()
		}
		return ""
	}
	// A copy: it may add to quantities of the pod that it is given.
	orders.StorageLimit = limit(resourcehelper.PodLimits(pod.DeepCopy(), resourcehelper.PodResourcesOptions{}))
	for i, c := range pod.Spec.Containers {
		orders.Containers[i].StorageLimit = limit(c.Resources.Limits)
	}
	for i, c := range pod.Spec.InitContainers {
		if sidecar(c) {
			orders.InitContainers[i].StorageLimit = limit(c.Resources.Limits)
		}
	}
}

// Plus is the sum of two needs.
func (r Resources) Plus(other Resources) Resources {
	for kind, n := range other.Gres.Counts() {
		r.Gres = r.Gres.Plus(kind, n)
	}
	r.CPUs, r.MemoryMiB, r.GPUs = r.CPUs+other.CPUs, r.MemoryMiB+other.MemoryMiB, r.GPUs+other.GPUs
	return r
}

// Less is what is left of r, never below nothing.
func (r Resources) Less(other Resources) Resources {
	return Resources{
		CPUs: max(0, r.CPUs-other.CPUs), MemoryMiB: max(0, r.MemoryMiB-other.MemoryMiB), GPUs: max(0, r.GPUs-other.GPUs),
		Gres: r.Gres.Less(other.Gres),
	}
}

// Devices is how many there are of a kind of generic resources; GPUs of any type are
// known even where their types are not.
func (r Resources) Devices(kind string) int {
	if kind == gpuGres {
		return r.GPUs
	}
	return r.Gres.Count(kind)
}

// Fits tells whether one of the HPC nodes is large enough, used or not.
func Fits(r Resources, nodes []Resources) bool {
	return slices.ContainsFunc(nodes, func(n Resources) bool { return n.holds(r) > 0 })
}

// checkDevices refuses GPUs of a type beside GPUs of any: no option of Slurm's asks
// for both at once.
func checkDevices(r Resources) *Rejection {
	types, _ := r.Gres.Split()
	if types == "" || types.total() == r.GPUs {
		return nil
	}
	return &Rejection{
		Reason: unsupported("Resource"),
		Field:  "spec.containers[*].resources",
		Message: fmt.Sprintf("The pod requests %d GPUs of any type beside those of a type (%s), and no job can ask for both. Request only resources with a type, or only those without.",
			r.GPUs-types.total(), types),
	}
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
		Message: fmt.Sprintf("The pod needs %s on one HPC node (spec.containers[*].resources), and no node has as much: they have %s. Request less, or use more and smaller pods.",
			r.describe(), strings.Join(kinds, " or ")),
	}
}

func (r Resources) describe() string {
	text := fmt.Sprintf("%d CPUs, %d MiB and %d GPUs", r.CPUs, r.MemoryMiB, r.GPUs)
	if r.Gres != "" {
		text += " (" + strings.ReplaceAll(string(r.Gres), ",", ", ") + ")"
	}
	return text
}
