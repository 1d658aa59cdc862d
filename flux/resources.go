package flux

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gangline/gangline/hostlist"
)

// Node is one broker's resources.
type Node struct {
	Rank  int
	Host  string
	Cores []int
	GPUs  []int
	// Properties are what the site calls it, by which constraints choose nodes.
	Properties []string
}

// ResourceSet is an R: resources, or a part of them. RFC 20.
type ResourceSet struct {
	Nodes []Node // by rank
}

// maxResources bounds the ids that an R names, those of its nodes' cores and GPUs with
// their ranks: a few bytes of text can stand for many.
const maxResources = 8 * maxIDs

// UnmarshalJSON reads version 1 of an R.
func (s *ResourceSet) UnmarshalJSON(text []byte) error {
	var r struct {
		Version   int `json:"version"`
		Execution struct {
			RLite []struct {
				Rank     string `json:"rank"`
				Children struct {
					Core string `json:"core"`
					GPU  string `json:"gpu"`
				} `json:"children"`
			} `json:"R_lite"`
			NodeList   []string          `json:"nodelist"`
			Properties map[string]string `json:"properties"`
		} `json:"execution"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("reading a resource set: %w", err)
	}
	if r.Version == 0 { // null, or nothing
		*s = ResourceSet{}
		return nil
	}
	if r.Version != 1 {
		return fmt.Errorf("reading a resource set: its version is %d, not 1", r.Version)
	}
	left := maxResources
	ids := func(set string) ([]int, error) {
		list, err := ParseIDs(set)
		if left -= len(list); err == nil && left < 0 {
			err = fmt.Errorf("reading a resource set: it names more than %d ranks, cores and GPUs", maxResources)
		}
		return list, err
	}
	byRank := map[int]int{}
	var nodes []Node
	for _, group := range r.Execution.RLite {
		ranks, err := ids(group.Rank)
		if err != nil {
			return err
		}
		cores, err := ids(group.Children.Core)
		if err != nil {
			return err
		}
		gpus, err := ids(group.Children.GPU)
		if err != nil {
			return err
		}
		for _, rank := range ranks {
			byRank[rank] = len(nodes)
			nodes = append(nodes, Node{Rank: rank, Cores: cores, GPUs: gpus})
		}
	}
	// The list of nodes is in the order of the ranks in R_lite.
	var hosts []string
	for _, list := range r.Execution.NodeList {
		more, err := hostlist.Expand(list)
		if err != nil {
			return err
		}
		if hosts = append(hosts, more...); len(hosts) > len(nodes) {
			break
		}
	}
	if len(hosts) != len(nodes) {
		return fmt.Errorf("reading a resource set: it has %d hosts or more for %d ranks", len(hosts), len(nodes))
	}
	for i := range nodes {
		nodes[i].Host = hosts[i]
	}
	for property, set := range r.Execution.Properties {
		ranks, err := ids(set)
		if err != nil {
			return err
		}
		for _, rank := range ranks {
			if i, ok := byRank[rank]; ok {
				nodes[i].Properties = append(nodes[i].Properties, property)
			}
		}
	}
	s.Nodes = nodes
	return nil
}

// Drain is why nodes get no new jobs.
type Drain struct {
	Ranks  []int
	Reason string
}

// ResourceStatus is what there is, and what of it is there.
type ResourceStatus struct {
	All ResourceSet
	// Online, Offline and Excluded are ranks; the instance's configuration keeps the
	// excluded from jobs.
	Online, Offline, Excluded []int
	Drained                   []Drain
}

// ResourceStatus asks the instance for its resources and their state.
func (h *Handle) ResourceStatus(ctx context.Context) (ResourceStatus, error) {
	var answer struct {
		R       ResourceSet `json:"R"`
		Online  string      `json:"online"`
		Offline string      `json:"offline"`
		Exclude string      `json:"exclude"`
		Drain   map[string]struct {
			Reason string `json:"reason"`
		} `json:"drain"`
	}
	if err := h.RPCNode(ctx, 0, "resource.status", nil, &answer); err != nil {
		return ResourceStatus{}, err
	}
	s := ResourceStatus{All: answer.R}
	for _, set := range []struct {
		text string
		to   *[]int
	}{{answer.Online, &s.Online}, {answer.Offline, &s.Offline}, {answer.Exclude, &s.Excluded}} {
		ids, err := ParseIDs(set.text)
		if err != nil {
			return s, err
		}
		*set.to = ids
	}
	for set, drain := range answer.Drain {
		ranks, err := ParseIDs(set)
		if err != nil {
			return s, err
		}
		s.Drained = append(s.Drained, Drain{Ranks: ranks, Reason: drain.Reason})
	}
	return s, nil
}

// SchedStatus is what the scheduler has: all that it may give to jobs, what of that is
// down, and what jobs have.
type SchedStatus struct {
	All       ResourceSet `json:"all"`
	Down      ResourceSet `json:"down"`
	Allocated ResourceSet `json:"allocated"`
}

// SchedStatus asks the scheduler for its resources. Since Flux 0.61.
func (h *Handle) SchedStatus(ctx context.Context) (SchedStatus, error) {
	var s SchedStatus
	err := h.RPCNode(ctx, 0, "resource.sched-status", nil, &s)
	return s, err
}
