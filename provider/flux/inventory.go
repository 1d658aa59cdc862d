package flux

import (
	"cmp"
	"slices"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// node is one of Flux's nodes as the caller sees it.
type node struct {
	flux.Node
	state  string
	usable bool
	used   translate.Resources
}

// nodesOf finds each node's state: what keeps it from jobs, or what jobs have of it.
func nodesOf(status flux.ResourceStatus, sched flux.SchedStatus) []node {
	used := map[int]translate.Resources{}
	for _, n := range sched.Allocated.Nodes {
		used[n.Rank] = translate.Resources{CPUs: len(n.Cores), GPUs: len(n.GPUs)}
	}
	var nodes []node
	for _, n := range status.All.Nodes {
		u := used[n.Rank]
		nodes = append(nodes, node{Node: n, used: u, state: stateOf(status, n, u), usable: unusable(status, n.Rank) == ""})
	}
	return nodes
}

func stateOf(status flux.ResourceStatus, n flux.Node, used translate.Resources) string {
	why := unusable(status, n.Rank)
	switch {
	case why != "":
		return why
	case used.CPUs == 0:
		return "free"
	case used.CPUs < len(n.Cores):
		return "mixed"
	}
	return "allocated"
}

// unusable is Flux's word for why a node gets no jobs, "" where it does.
func unusable(status flux.ResourceStatus, rank int) string {
	switch {
	case slices.Contains(status.Excluded, rank):
		return "exclude"
	case !slices.Contains(status.Online, rank):
		return "offline"
	}
	for _, d := range status.Drained {
		if slices.Contains(d.Ranks, rank) {
			if d.Reason != "" {
				return "drained: " + d.Reason
			}
			return "drained"
		}
	}
	return ""
}

// newInventory puts nodes into the instance's queues.
func newInventory(cfg instanceConfig, nodes []node, memoryMiB int64) wlm.Inventory {
	partition := func(name string, requires []string) wlm.Partition {
		p := wlm.Partition{Name: name}
		for _, n := range nodes {
			if slices.ContainsFunc(requires, func(r string) bool { return !slices.Contains(n.Properties, r) }) {
				continue
			}
			p.Nodes = append(p.Nodes, wlm.Node{
				Name: n.Host, CPUs: len(n.Cores), GPUs: len(n.GPUs), MemoryMiB: memoryMiB,
				Features: n.Properties, State: n.state, Usable: n.usable, Used: n.used,
			})
		}
		return p
	}
	// All slots of a job are alike, so any of them may be on any node.
	inventory := wlm.Inventory{ComponentsShareNodes: true}
	for name, queue := range cfg.Queues {
		inventory.Partitions = append(inventory.Partitions, partition(name, queue.Requires))
	}
	if len(cfg.Queues) == 0 {
		inventory.Partitions = append(inventory.Partitions, partition(onlyPartition, nil))
	}
	slices.SortFunc(inventory.Partitions, func(a, b wlm.Partition) int { return cmp.Compare(a.Name, b.Name) })
	for i := range inventory.Partitions {
		p := &inventory.Partitions[i]
		p.Default = len(inventory.Partitions) == 1 || p.Name == cfg.Policy.Jobspec.Defaults.System.Queue
	}
	return inventory
}
