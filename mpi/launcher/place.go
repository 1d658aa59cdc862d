package launcher

import (
	"fmt"
	"slices"
	"strings"
)

// Pod is a pod of the gang, as far as ranks are concerned.
type Pod struct {
	Slot int
	// Names are all its names, in lower case, Address its node's.
	Names   []string
	Address string
	// Group is the replicated job that it belongs to.
	Group string
	// MPISlots is the number of ranks that it takes; 0: no ranks come to it
	// unasked.
	MPISlots int
	// Node is its node's name to the workload manager, Component the part of a
	// heterogeneous job that holds it.
	Node      string
	Component int
}

// Name is the pod's name for people.
func (p Pod) Name() string {
	if len(p.Names) == 0 {
		return fmt.Sprintf("slot %d", p.Slot)
	}
	return p.Names[0]
}

// Place is a pod and how many ranks it may take.
type Place struct {
	Pod   Pod
	Slots int
}

// Gang is what is known of the pods when a launcher is called in one of them.
type Gang struct {
	Pods []Pod
	// Own is the index of the launcher's own pod.
	Own int
}

// find looks a pod up by any of its names, by an address that it shares with no
// other, or as the launcher's own.
func (g Gang) find(name string) (Pod, bool) {
	if isLocal(name) {
		return g.Pods[g.Own], true
	}
	var there []Pod
	for _, p := range g.Pods {
		if slices.Contains(p.Names, name) {
			return p, true
		}
		if p.Address == name {
			there = append(there, p)
		}
	}
	if len(there) == 1 {
		return there[0], true
	}
	return Pod{}, false
}

// Places finds the pods of a list of hosts. A host that does not say its slots
// has the pod's. Foreign are the names that are none of the gang's.
func (g Gang) Places(hosts []Host) (places []Place, foreign []string) {
	for _, h := range hosts {
		pod, ok := g.find(h.Name)
		if !ok {
			foreign = append(foreign, h.Name)
			continue
		}
		n := h.Slots
		if n == 0 {
			n = max(pod.MPISlots, 1)
		}
		at := slices.IndexFunc(places, func(p Place) bool { return p.Pod.Slot == pod.Slot })
		if at >= 0 {
			places[at].Slots += n
			continue
		}
		places = append(places, Place{pod, n})
	}
	return places, foreign
}

// Default are the places that a launcher has that is told of none: those of its
// default hostfile or, where there is none, the whole gang's.
func (g Gang) Default(hostfile []Host) (places []Place, foreign []string) {
	if len(hostfile) > 0 {
		return g.Places(hostfile)
	}
	for _, pod := range g.Pods {
		if pod.MPISlots > 0 {
			places = append(places, Place{pod, pod.MPISlots})
		}
	}
	return places, nil
}

// LeftOut are the pods that a default hostfile forgets: those of replicated jobs
// of which it lists others.
func (g Gang) LeftOut(places []Place) []Pod {
	listed, groups := map[int]bool{}, map[string]bool{}
	for _, p := range places {
		listed[p.Pod.Slot], groups[p.Pod.Group] = true, true
	}
	var out []Pod
	for _, pod := range g.Pods {
		if pod.MPISlots > 0 && groups[pod.Group] && !listed[pod.Slot] {
			out = append(out, pod)
		}
	}
	return out
}

// Rank is one rank's place and program.
type Rank struct {
	Pod     Pod
	Program int
}

// Lay lays a request's ranks on places; a program with hosts of its own stays on
// those, which of says. Where the number of ranks is not said, every slot gets
// one.
//
// The ranks of a heterogeneous job are numbered component by component, so they
// are laid in that order.
func Lay(r Request, of func(program int) []Place) ([]Rank, error) {
	var all []Rank
	used := map[int]int{} // by slot: a program goes on where the one before it ended
	for i, program := range r.Programs {
		places := slices.Clone(of(i))
		slices.SortStableFunc(places, func(a, b Place) int { return a.Pod.Component - b.Pod.Component })
		if r.PerHost > 0 {
			for k := range places {
				places[k].Slots = r.PerHost
			}
		}
		ranks, err := lay(program, i, r, places, used)
		if err != nil {
			return nil, err
		}
		all = append(all, ranks...)
	}
	if !slices.IsSortedFunc(all, func(a, b Rank) int { return a.Pod.Component - b.Pod.Component }) {
		return nil, fmt.Errorf("the pods of this gang have different resources, so its job numbers ranks in the order of the gang; order the programs and --map-by likewise")
	}
	return all, nil
}

func lay(program Program, index int, r Request, places []Place, used map[int]int) ([]Rank, error) {
	free, total := 0, 0
	for _, p := range places {
		free += max(p.Slots-used[p.Pod.Slot], 0)
		total += p.Slots
	}
	n := program.Ranks
	if n == 0 {
		n = free
	}
	switch {
	case total == 0 || n == 0:
		return nil, fmt.Errorf("there is no slot for %s", program.Argv[0])
	case n > free && r.Oversubscribe && r.PerHost == 0:
		// What is too many is spread evenly, as Open MPI does.
		more := n - free
		for k := range places {
			left := len(places) - k
			share := (more + left - 1) / left
			places[k].Slots = max(places[k].Slots, used[places[k].Pod.Slot]) + share
			more -= share
		}
	case n > free:
		return nil, fmt.Errorf("%d ranks of %s do not fit on the %d free slots of %s; ask for fewer, for pods with more slots, or give --oversubscribe", n, program.Argv[0], free, names(places))
	}
	var ranks []Rank
	for len(ranks) < n {
		for _, p := range places {
			for used[p.Pod.Slot] < p.Slots && len(ranks) < n {
				used[p.Pod.Slot]++
				ranks = append(ranks, Rank{p.Pod, index})
				if r.Cyclic {
					break
				}
			}
		}
	}
	return ranks, nil
}

// names are the places' names for people, some of many.
func names(places []Place) string {
	const most = 8
	var all []string
	for _, p := range places[:min(most, len(places))] {
		all = append(all, p.Pod.Name())
	}
	text := strings.Join(all, ", ")
	if more := len(places) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
