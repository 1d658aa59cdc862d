package checker

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The deeds that may rightly change how a pod ends. No other may: whoever kills the node's
// program, cuts its way to the site, fills its disk or freezes the API server must not be
// able to tell by any pod's end.
const (
	// KillAgent is the death of a process of an allocation.
	KillAgent = "killAgent"
	// CancelJob is an administrator's scancel.
	CancelJob = "cancelJob"
	// CrashNode is a power cut of an HPC node.
	CrashNode = "crashNode"
	// KillSlurmctld is SIGKILL, upon which slurmctld forgets its last seconds.
	KillSlurmctld = "killSlurmctld"
)

// amnesia is how far back a slurmctld that was killed may forget (it saves its state every
// five seconds), and aftermath how long after it the consequences may show: nodes must
// register again, and jobs be missed in several listings.
const amnesia, aftermath = 12 * time.Second, 45 * time.Second

// harmed tells what may have changed the end of a pod: a deed, its deletion, or the end of
// another pod of its gang; empty if nothing may.
func (h *index) harmed(p Pod) string {
	if !p.Deleting.IsZero() {
		return "it was deleted"
	}
	for _, d := range h.Deeds {
		if h.reaches(d, p) {
			return d.Kind + " " + d.Target + " at " + clock(d.At)
		}
	}
	return ""
}

// reaches tells whether a deed may have harmed a pod.
func (h *index) reaches(d Deed, p Pod) bool {
	began, ended := p.life()
	in := func(from, to time.Time) bool { return !ended.Before(from) && !began.After(to) }
	switch d.Kind {
	case KillAgent, CancelJob:
		return d.Allocation != "" && d.Allocation == p.allocation()
	case CrashNode:
		return in(d.At, d.Until.Add(aftermath)) && h.had(p.allocation(), d.Node)
	case KillSlurmctld:
		return in(d.At.Add(-amnesia), d.Until.Add(aftermath))
	}
	return false
}

// life is when a pod was first seen, and when its end was, or it was seen no more.
func (p Pod) life() (began, ended time.Time) {
	if len(p.Seen) == 0 {
		return p.Gone, p.Gone
	}
	began, ended = p.Seen[0].At, p.last().At
	for _, s := range p.Seen {
		if s.terminal() {
			return began, s.At
		}
	}
	return began, ended
}

// had tells whether an allocation had an HPC node.
func (h *index) had(allocation, node string) bool {
	if allocation == "" {
		return true // nobody knows
	}
	known := false
	for _, p := range h.podsOf[allocation] {
		known = known || p.node() != ""
		if p.node() == node {
			return true
		}
	}
	for _, j := range h.jobsOf[allocation] {
		if slices.Contains(expand(j.Nodes), node) {
			return true
		}
		known = known || j.Nodes != ""
	}
	return !known // it was to start, perhaps there
}

// expand is a list of nodes as Slurm writes it: "a[1-2,4],b7".
func expand(list string) (names []string) {
	for list != "" {
		end := strings.IndexAny(list, ",[")
		if end < 0 || list[end] == ',' {
			name, rest, _ := strings.Cut(list, ",")
			names, list = append(names, name), rest
			continue
		}
		prefix, rest := list[:end], list[end+1:]
		inner, rest, _ := strings.Cut(rest, "]")
		for part := range strings.SplitSeq(inner, ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			from, _ := strconv.Atoi(first)
			to, _ := strconv.Atoi(last)
			for n := from; n <= to; n++ {
				number := strconv.Itoa(n)
				names = append(names, prefix+strings.Repeat("0", max(0, len(first)-len(number)))+number)
			}
		}
		list = strings.TrimPrefix(rest, ",")
	}
	return names
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
