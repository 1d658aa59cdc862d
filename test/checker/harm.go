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
	// StopSlurmctld is its kind end; what it starts as soon as it is back may fail.
	StopSlurmctld = "stopSlurmctld"
)

const (
	// amnesia is how far back a slurmctld that was killed may forget: it saves its state
	// every five seconds.
	amnesia = 12 * time.Second
	// aftermath is how long after a deed its consequences may show: nodes must register
	// again, and jobs be missed in several listings.
	aftermath = 45 * time.Second
	// telling is how long an agent may take to tell of an end: a spool that is full or
	// frozen is so for up to seven seconds.
	telling = 8 * time.Second
)

// harmed tells what may have changed the end of a pod: a deed, or its deletion; empty if
// nothing may.
func (h *index) harmed(p Pod) string {
	if p.deletedAlive() {
		return deletion
	}
	for _, d := range h.Deeds {
		if h.reaches(d, p) {
			return d.Kind
		}
	}
	return ""
}

// deletion is the harm that users do.
const deletion = "deletion"

// excuse tells what may have kept the API from telling a failed pod's end as its process
// would have it; empty if nothing may. One that noted no end may have been killed. One that
// did is to be told with its own code, unless its agent died before it could tell: deletion
// and slurmctld leave agents the time.
func (h *index) excuse(p Pod, runs []Process) string {
	if len(runs) == 0 || runs[0].Ended.IsZero() {
		return h.harmed(p)
	}
	for _, d := range h.Deeds {
		if d.Kind != KillSlurmctld && runs[0].Ended.After(d.At.Add(-telling)) && h.reaches(d, p) {
			return d.Kind
		}
	}
	return ""
}

// reaches tells whether a deed may have harmed a pod.
func (h *index) reaches(d Deed, p Pod) bool {
	began, ended := p.life()
	allocation := p.allocation()
	soon := !began.After(d.Until.Add(aftermath))
	switch {
	case ended.Before(d.At), allocation == "":
		return false
	case d.Kind == KillAgent, d.Kind == CancelJob:
		return soon && d.Allocation == allocation
	case d.Kind == CrashNode:
		return soon && h.had(allocation, d.Node) && !h.startedAfter(allocation, d.Until)
	case d.Kind == KillSlurmctld:
		return h.forgot(d, allocation) || soon && (h.spoiled(allocation) || h.reused(allocation)) || h.unready(d, allocation)
	case d.Kind == StopSlurmctld:
		return h.unready(d, allocation)
	}
	return false
}

// back is how long Slurm may take to see that a node, or its jobs, are there again.
const back = 5 * time.Second

// startedAfter tells whether an allocation's job began when a deed was long over.
func (h *index) startedAfter(allocation string, t time.Time) bool {
	jobs := h.jobsOf[allocation]
	early := func(j Job) bool { return !j.Started.After(t.Add(back)) } // also one that never started
	return len(jobs) > 0 && !slices.ContainsFunc(jobs, early)
}

// startedAgain tells whether a job's line is that of a second start, after the process of the
// first had ended: a slurmctld that was killed may have forgotten that start. The second runs
// nothing, and ends with a failure of its own.
func (h *index) startedAgain(j Job, of Process) bool {
	return j.Started.After(of.Ended) && slices.ContainsFunc(h.Deeds, func(d Deed) bool {
		return d.Kind == KillSlurmctld && d.At.After(of.Began) && d.At.Before(j.Started)
	})
}

// endedAgain tells whether a job's line is that of a second end: a slurmctld that was killed
// may have forgotten the first, which has a line as well. It looks for the job on its nodes
// in vain, or is told to cancel what it believes to run.
func (h *index) endedAgain(j Job) bool {
	return slices.ContainsFunc(h.jobsOf[j.Name], func(first Job) bool {
		return first.ID == j.ID && first.Ended.Before(j.Ended) && slices.ContainsFunc(h.Deeds, func(d Deed) bool {
			return d.Kind == KillSlurmctld && d.At.Before(j.Ended) && first.Ended.Before(d.Until) && first.Ended.After(d.At.Add(-amnesia))
		})
	})
}

// forgot tells whether a slurmctld that was killed may have forgotten an allocation's job,
// or that it has started: it was so fresh. Of a job that it has forgotten jobcomp may have
// no line; then it was not submitted later than this. Or it has the line of a second start,
// and what tells of the first is the claim.
func (h *index) forgot(d Deed, allocation string) bool {
	fresh := func(t time.Time) bool { return t.After(d.At.Add(-amnesia)) && !t.After(d.Until) }
	if fresh(h.dirOf[allocation].Claimed) {
		return true
	}
	known, claim := false, h.claimOf[allocation]
	for _, j := range h.jobsOf[allocation] {
		known = known || claim == "" || j.ID == claim
		if fresh(j.Submitted) || fresh(j.Started) {
			return true
		}
	}
	return !known && !h.dirOf[allocation].FirstSeen.After(d.Until)
}

// spoiled tells whether a job of an allocation ended as one does that Slurm ended or
// started again by itself.
func (h *index) spoiled(allocation string) bool {
	return slices.ContainsFunc(h.jobsOf[allocation], func(j Job) bool {
		return strings.HasPrefix(j.State, "CANCELLED") || slices.Contains(again, j.State)
	})
}

// orphaned tells whether Kubernetes' own garbage collector may have failed a pod, without a
// container's status: it does so 40 s after a Node object has gone that nobody made again.
func (h *index) orphaned(p Pod, failed Sight) bool {
	const least, most = 30 * time.Second, 10 * time.Minute
	began, _ := p.life()
	return slices.ContainsFunc(h.Deeds, func(d Deed) bool {
		since := failed.At.Sub(d.At)
		return d.Kind == "deleteNode" && d.Error == "" && began.Before(d.At) && since > least && since < most
	})
}

// reused tells whether the id of an allocation's job was another's as well: a slurmctld
// that was killed gives ids again, and nodes that still clear away the old job end the new.
func (h *index) reused(allocation string) bool {
	id := h.claimOf[allocation]
	return id != "" && slices.ContainsFunc(h.Dirs, func(d Dir) bool {
		return d.Allocation != allocation && slices.Contains(d.Claims, id)
	})
}

// noStep is what srun says when it cannot run anything in its job's own allocation.
const noStep = "Unable to create step"

// unready tells whether a slurmctld started an allocation's job in its own first seconds,
// and nothing of it ever ran. Slurm does so before the nodes have registered again, and may
// then never make a step of that job.
func (h *index) unready(d Deed, allocation string) bool {
	said := false
	for _, p := range h.podsOf[allocation] {
		if len(h.processesOf[p.UID]) > 0 {
			return false
		}
		said = said || strings.Contains(p.last().Message, noStep)
	}
	return said && slices.ContainsFunc(h.jobsOf[allocation], func(j Job) bool {
		return j.Started.After(d.Until.Add(-time.Second)) && j.Started.Before(d.Until.Add(back))
	})
}

// life is when a pod was first seen, and when its end was, or it was there no more.
func (p Pod) life() (began, ended time.Time) {
	if len(p.Seen) == 0 {
		return p.Gone, p.Gone
	}
	began, ended = p.Seen[0].At, p.last().At
	if p.Gone.After(ended) {
		ended = p.Gone
	}
	for _, s := range p.Seen {
		if s.terminal() {
			return began, s.At
		}
	}
	return began, ended
}

// deletedAlive tells whether a pod was deleted before it ended: afterwards each is.
func (p Pod) deletedAlive() bool {
	_, ended := p.life()
	return !p.Deleting.IsZero() && !p.Deleting.After(ended)
}

// had tells whether an allocation had an HPC node.
func (h *index) had(allocation, node string) bool {
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
