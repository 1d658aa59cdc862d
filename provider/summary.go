package provider

import (
	"maps"
	"slices"
	"sync"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// summary is what is asked of an inventory for each pod, found out once: a partition may
// have thousands of nodes, and a look at a gang asks for each of its pods.
type summary struct {
	// gpuTypes are all there are, sorted.
	gpuTypes []string
	// kinds are the different nodes of each partition, each once.
	kinds map[string][]translate.Resources
	nodes map[string]wlm.Node // by name
}

func summarize(inv wlm.Inventory) *summary {
	s := &summary{kinds: map[string][]translate.Resources{}, nodes: map[string]wlm.Node{}}
	types := map[string]bool{}
	for _, p := range inv.Partitions {
		seen := map[translate.Resources]bool{}
		for _, n := range p.Nodes {
			if _, known := s.nodes[n.Name]; !known {
				s.nodes[n.Name] = n
			}
			if kind := nodeResources(n); !seen[kind] {
				seen[kind] = true
				s.kinds[p.Name] = append(s.kinds[p.Name], kind)
			}
		}
		for gpuType := range gpuTypes(p.Nodes) {
			types[gpuType] = true
		}
	}
	s.gpuTypes = append([]string{}, slices.Sorted(maps.Keys(types))...)
	return s
}

// summaries remember the last inventory's.
type summaries struct {
	mu   sync.Mutex
	of   *wlm.Partition // the first one of that inventory, which nobody changes
	last *summary
}

func (s *summaries) get(inv wlm.Inventory) *summary {
	if len(inv.Partitions) == 0 {
		return summarize(inv)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := &inv.Partitions[0]; s.of != first {
		s.of, s.last = first, summarize(inv)
	}
	return s.last
}
