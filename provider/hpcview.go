package provider

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// hpcView is what admission needs to know of the HPC side at one moment.
type hpcView struct {
	site      translate.Site
	inventory wlm.Inventory
	summary   *summary       // of the inventory; nil where it is to be made when it is asked for
	partition string         // the configured default, or the manager's
	allowed   []string       // partitions that pods may name; empty for all
	flags     []string       // options of the workload manager's that pods may set
	niceness  map[string]int // by PriorityClass
	// limitWarning is how long before a time limit pods are stopped, 0 for their own
	// grace period, below 0 for not at all.
	limitWarning time.Duration
	// check tells what the workload manager can never be asked; nil for one that takes all.
	check func(translate.Request) error
}

func newHPCView(c Config, inv wlm.Inventory) hpcView {
	return hpcView{
		site: translate.Site{
			GPUResource: corev1.ResourceName(c.GPUResource), Devices: c.Resources, Images: c.Images, HostPaths: c.HostPaths,
			ReadOnlyHostPaths: c.ReadOnlyHostPaths, ClaimRules: c.Volumes.Claims,
			Environment: c.Environment, Limits: c.Limits, Runtimes: c.Containers.offered(),
		},
		inventory: inv, partition: c.Partition, allowed: c.Partitions,
		flags: c.Slurm.AllowedFlags, niceness: c.PriorityClasses,
		limitWarning: c.TimeLimitWarning.Duration,
	}
}

// as narrows the view to what one HPC user has.
func (v hpcView) as(id identity.Identity) hpcView {
	v.site.User = id.User
	if id.HostPaths != nil {
		v.site.HostPaths = id.HostPaths
	}
	if id.ReadOnlyHostPaths != nil {
		v.site.ReadOnlyHostPaths = id.ReadOnlyHostPaths
	}
	if id.Claims != nil {
		v.site.ClaimRules = id.Claims
	}
	v.partition = cmp.Or(id.Partition, v.partition)
	return v
}

// offer is what pods may wish for. What the inventory tells is nil while it is not
// known.
func (v hpcView) offer() translate.Offer {
	o := translate.Offer{Partitions: v.allowed, Flags: v.flags, Runtimes: v.site.Runtimes.Allowed}
	for _, p := range v.inventory.Partitions {
		if len(v.allowed) == 0 {
			o.Partitions = append(o.Partitions, p.Name)
		}
	}
	if len(v.inventory.Partitions) > 0 {
		o.GPUTypes = v.summed().gpuTypes
	}
	return o
}

func (v hpcView) summed() *summary {
	if v.summary == nil {
		return summarize(v.inventory)
	}
	return v.summary
}

// partitionFor is where the job of a gang is that wishes for a partition, or for none.
func (v hpcView) partitionFor(wish string) string {
	if name := cmp.Or(wish, v.partition); name != "" {
		return name
	}
	for _, p := range v.inventory.Partitions {
		if p.Default {
			return p.Name
		}
	}
	return ""
}

// of narrows the site to the nodes of a partition. A node that is down today
// counts: it may be up when the job's turn comes.
func (v hpcView) of(partition string) translate.Site {
	site := v.site
	site.Nodes = v.summed().kinds[v.partitionFor(partition)]
	return site
}

// forPod is the site as a pod with these wishes has it.
func (v hpcView) forPod(w translate.Wishes) translate.Site {
	site := v.site
	site.Partition = v.partitionFor(w.Partition)
	site.Runtime = cmp.Or(w.Runtime, site.Runtimes.Default)
	return site
}

// node is what an HPC node has, as limits that a container does not set count;
// nothing where the node is not known.
func (v hpcView) node(name string) corev1.ResourceList {
	n, known := v.summed().nodes[name]
	if !known {
		return nil
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(n.CPUs), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(n.MemoryMiB<<20, resource.BinarySI),

		corev1.ResourceEphemeralStorage: *resource.NewQuantity(scratchSpace, resource.BinarySI),
	}
}

// nodes is what each node of a partition has; "" is the default partition.
func (v hpcView) nodes(partition string) []translate.Resources {
	if partition == "" {
		partition = v.partition
	}
	var nodes []translate.Resources
	for _, p := range v.inventory.Partitions {
		if p.Name != partition && (partition != "" || !p.Default) {
			continue
		}
		for _, n := range p.Nodes {
			nodes = append(nodes, nodeResources(n))
		}
	}
	return nodes
}

// gpuTypes are the types of GPUs that nodes have, with how many there are of each.
func gpuTypes(nodes []wlm.Node) map[string]int {
	types := map[string]int{}
	for _, n := range nodes {
		typed, _ := n.Gres.Split()
		for gpuType, count := range typed.Counts() {
			types[gpuType] += count
		}
	}
	return types
}
