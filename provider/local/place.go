package local

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gangline/gangline/translate"
)

// placement is one task's place.
type placement struct {
	Node      string `json:"node"`
	Address   string `json:"address"`
	CPUs      int    `json:"cpus"`
	MemoryMiB int64  `json:"memoryMiB"`
	// GPUs are the node's device numbers that the task may use.
	GPUs []int `json:"gpus,omitempty"`
	// Exclusive tells that the node is the job's alone.
	Exclusive bool `json:"exclusive,omitempty"`
}

// usage is what the jobs on one node hold of it.
type usage struct {
	cpus      int
	memoryMiB int64
	gpus      map[int]bool
	tasks     int
	exclusive bool
}

func (u *usage) add(p placement) {
	u.cpus += p.CPUs
	u.memoryMiB += p.MemoryMiB
	u.tasks++
	u.exclusive = u.exclusive || p.Exclusive
	if u.gpus == nil {
		u.gpus = map[int]bool{}
	}
	for _, g := range p.GPUs {
		u.gpus[g] = true
	}
}

// place finds room for all tasks of a request, or for none. A group's tasks are
// packed onto the nodes in rank order, so that neighbours in rank are neighbours
// on the nodes. The groups that ask for most are placed first, each beginning at
// the first node: small ones go into what is left. used tells what runs already,
// by node, and is not changed.
func place(nodes []NodeSpec, used map[string]usage, r translate.Request) ([]placement, bool) {
	free := make([]usage, len(nodes)) // with what this request takes added
	for i, n := range nodes {
		free[i] = used[n.Name]
		free[i].gpus = maps.Clone(free[i].gpus)
		// A node is taken as a whole by an exclusive job, and to one only when
		// nothing else is there.
		if free[i].exclusive || r.Exclusive && free[i].tasks > 0 {
			free[i].cpus = n.CPUs
		}
	}
	byGroup := make([][]placement, len(r.Groups))
	for _, i := range greediestFirst(r.Groups) {
		g, at := r.Groups[i], 0
		for range g.Tasks {
			for at < len(nodes) && !fits(nodes[at], free[at], g.Resources) {
				at++
			}
			if at == len(nodes) {
				return nil, false
			}
			p := placement{
				Node: nodes[at].Name, Address: nodes[at].Address, CPUs: g.CPUs, MemoryMiB: g.MemoryMiB,
				GPUs: freeGPUs(nodes[at], free[at], g.GPUs), Exclusive: r.Exclusive,
			}
			free[at].add(p)
			byGroup[i] = append(byGroup[i], p)
		}
	}
	return slices.Concat(byGroup...), true
}

// greediestFirst returns the groups' indices, those first whose tasks are hardest
// to place.
func greediestFirst(groups []translate.TaskGroup) []int {
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := groups[i], groups[j]
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(b.MemoryMiB, a.MemoryMiB))
	})
	return order
}

func fits(n NodeSpec, u usage, r translate.Resources) bool {
	return u.cpus+r.CPUs <= n.CPUs && u.memoryMiB+r.MemoryMiB <= n.MemoryMiB && len(u.gpus)+r.GPUs <= n.GPUs
}

// freeGPUs returns the lowest n device numbers that nobody holds.
func freeGPUs(node NodeSpec, u usage, n int) []int {
	var free []int
	for g := 0; g < node.GPUs && len(free) < n; g++ {
		if !u.gpus[g] {
			free = append(free, g)
		}
	}
	return free
}

// nodesOf names the nodes of some places once each, in order.
func nodesOf(places []placement) []string {
	var names []string
	for _, p := range places {
		if !slices.Contains(names, p.Node) {
			names = append(names, p.Node)
		}
	}
	return names
}
