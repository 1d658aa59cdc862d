package translate

import (
	"slices"
	"strings"
)

// Meeting is where the pods of a gang meet. Pods have their HPC node's ports, and
// runtimes write the same one for every job, as Kubeflow's write 29500: on shared
// nodes each gang needs others. So every agent keeps some for its pod, and those of
// the pod that is named take the place of those that are written, one for one.
type Meeting struct {
	// Own is the slot of the pod that asks.
	Own int
	// Attempt counts how often all pods of the gang were made anew. Each attempt meets
	// elsewhere, out of the way of what is left of the one before: processes on other
	// nodes that are still ending, connections that linger.
	Attempt int
	// Places are the gang's slots.
	Places []MeetingPlace
}

// MeetingPlace is one slot as a place to meet.
type MeetingPlace struct {
	// Hosts are all names of the slot's pod.
	Hosts []string
	// Ports are those that the slot's agent keeps.
	Ports []int
	// Written are the ports that pods of the gang have named at this place so far, in
	// that order: Ports[i] is used instead of Written[i], in the first attempt. It must
	// outlive the pods.
	Written []int
}

// localHosts are names by which every pod calls itself.
var localHosts = [...]string{"localhost", "127.0.0.1"}

// Port returns the port to use instead of the one that is written for a host. It
// reports false for one that stays: the host is none of the gang, or more ports are
// written for it than its agent keeps. A port that is named for the first time is
// added to its place.
func (m *Meeting) Port(host string, written int) (int, bool) {
	k := slices.IndexFunc(m.Places, func(p MeetingPlace) bool {
		return slices.ContainsFunc(p.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
	})
	if slices.Contains(localHosts[:], host) {
		k = m.Own
	}
	if k < 0 {
		return 0, false
	}
	place := &m.Places[k]
	i := slices.Index(place.Written, written)
	if i < 0 {
		if len(place.Written) >= len(place.Ports) {
			return 0, false
		}
		i = len(place.Written)
		place.Written = append(slices.Clip(place.Written), written)
	}
	if i >= len(place.Ports) {
		return 0, false
	}
	return place.Ports[(i+m.Attempt)%len(place.Ports)], true
}
