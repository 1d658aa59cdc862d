package translate

import "fmt"

// NeverFits says why an allocation can never run on these nodes (one entry for
// each), used or not; it is empty for one that can, and where no node is known.
// The workload manager would keep such a job in its queue for ever.
//
// shareNodes tells whether groups of different shapes may be on one node.
// Slurm gives each component of a heterogeneous job nodes of its own.
func NeverFits(groups []TaskGroup, nodes []Resources, shareNodes bool) string {
	if len(nodes) == 0 {
		return ""
	}
	if !shareNodes && len(groups) > len(nodes) {
		return fmt.Sprintf("the gang has %d runs of pods with equal requests, each of which gets nodes of its own, and the partition has %d nodes; "+
			"give more of the pods the same requests", len(groups), len(nodes))
	}
	for _, g := range groups {
		room := 0
		for _, n := range nodes {
			room += n.holds(g.Resources)
		}
		if room < g.Tasks {
			return fmt.Sprintf("the gang needs room for %d pods with %s at once, and the whole partition has room for %d; use fewer or smaller pods",
				g.Tasks, g.describe(), room)
		}
	}
	return ""
}

// holds is how many times r fits into the node n.
func (n Resources) holds(r Resources) int {
	times := n.CPUs / max(r.CPUs, 1)
	if r.MemoryMiB > 0 {
		times = min(times, int(n.MemoryMiB/r.MemoryMiB))
	}
	if r.GPUs > 0 {
		times = min(times, n.GPUs/r.GPUs)
	}
	for kind, count := range r.Gres.Counts() {
		times = min(times, n.Gres.Count(kind)/count)
	}
	return times
}
