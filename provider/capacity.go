package provider

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// usage is what this node's own pods have of each HPC node, by name.
type usage map[string]translate.Resources

// Capacity is the total of the nodes of the partition that take jobs: those that
// are drained or down come back with their return. Where the site wants it, what others
// use is taken off; what our own pods use never is, for Kubernetes subtracts that itself.
func Capacity(c Config, inv wlm.Inventory, ours usage) corev1.ResourceList {
	var total translate.Resources
	devices := map[corev1.ResourceName]int64{}
	kinds := c.Resources.All(corev1.ResourceName(c.GPUResource))
	for name := range kinds {
		devices[name] = 0
	}
	if p := partitionOf(c, inv); p != nil {
		for _, n := range p.Nodes {
			if !n.Usable {
				continue
			}
			have := nodeResources(n)
			if c.CountOthers {
				have = have.Less(n.Used.Less(ours[n.Name]))
			}
			total.CPUs += have.CPUs
			total.MemoryMiB += have.MemoryMiB
			for name, kind := range kinds {
				devices[name] += int64(have.Devices(kind))
			}
		}
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(total.CPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(total.MemoryMiB<<20, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(c.MaxPods), resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(scratchSpace, resource.BinarySI),
	}
	for name, n := range devices {
		if kinds[name] == translate.EveryNode {
			n = everyNode
		}
		list[name] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return list
}

// everyNode is the capacity of what all HPC nodes have: pods may ask for some, and none is
// ever short of it.
const everyNode = 1_000_000

func nodeResources(n wlm.Node) translate.Resources {
	return translate.Resources{CPUs: n.CPUs, MemoryMiB: n.MemoryMiB, GPUs: n.GPUs, Gres: n.Gres}
}

// ownUsage is what the slots have that agents have reported from.
func ownUsage(r *registry, statuses *statusTable) usage {
	ours := usage{}
	for _, a := range r.live() {
		for k, report := range statuses.of(a) {
			node := report.Agent.Node
			if node == "" || k >= len(a.gang.Slots) || a.gang.Slots[k].Rides {
				continue
			}
			slot := &a.gang.Slots[k]
			ours[node] = ours[node].Plus(translate.Resources{
				CPUs: slot.CPUs, MemoryMiB: slot.MemoryMiB, GPUs: slot.GPUs, Gres: translate.Gres(slot.Gres),
			})
		}
	}
	return ours
}
