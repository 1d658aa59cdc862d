package page

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// mark is a moment at which a stage begins; zero if it is not known.
type mark struct {
	stage Stage
	at    time.Time
}

// timeline is a gang's life in parts, made of what is written down of it: so it is the
// same after a restart of the node. Times come from several clocks, and from whole
// seconds, so none is let before the one that must precede it.
func timeline(g Gang) []Span {
	a := g.Allocation
	if a == nil || a.Ended != nil && stage(g) == Forming {
		return spans([]mark{{Forming, firstPod(g.Pods)}}, time.Time{})
	}
	marks := []mark{{Forming, firstPod(g.Pods)}}
	if a.Generation > 1 {
		marks = nil // its pods may be older than it is
	}
	if a.Submitted != nil {
		marks = append(marks, mark{Queued, a.Submitted.Submitted})
	}
	began, ready := agents(g)
	if a.Job != nil && !a.Job.Started.IsZero() {
		began = a.Job.Started
	}
	marks = append(marks, mark{Starting, began}, mark{Running, ready})
	if stage(g) == Draining || stage(g) == Ended {
		marks = append(marks, mark{Draining, lastEnd(g.Pods)})
	}
	var end time.Time
	if a.Ended != nil {
		end = a.Ended.At
	}
	return spans(marks, end)
}

// agents are when the first agent of a gang began and the last one did, the latter zero
// while one is missing. Where their reports are forgotten, the pods' containers tell.
func agents(g Gang) (first, last time.Time) {
	if reported(g.Allocation.Reports) || g.Allocation.Ended == nil {
		for _, r := range g.Allocation.Reports {
			if at := r.Agent.Started; !at.IsZero() && (first.IsZero() || at.Before(first)) {
				first = at
			}
			if r.Agent.Started.After(last) {
				last = r.Agent.Started
			}
		}
		if !reported(g.Allocation.Reports) {
			last = time.Time{}
		}
		return first, last
	}
	for _, p := range g.Pods {
		for _, c := range p.Status.ContainerStatuses {
			at := startOf(c)
			if at.IsZero() {
				continue
			}
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
	}
	return first, last
}

func startOf(c corev1.ContainerStatus) time.Time {
	switch {
	case c.State.Running != nil:
		return c.State.Running.StartedAt.Time
	case c.State.Terminated != nil:
		return c.State.Terminated.StartedAt.Time
	}
	return time.Time{}
}

func firstPod(pods []Pod) time.Time {
	var first time.Time
	for _, p := range pods {
		if at := p.CreationTimestamp.Time; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// lastEnd is when the last container of the pods ended.
func lastEnd(pods []Pod) time.Time {
	var last time.Time
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	return last
}

// spans joins the moments that are known. end closes the last part; zero leaves it open.
func spans(marks []mark, end time.Time) []Span {
	list := []Span{}
	for _, m := range marks {
		if m.at.IsZero() {
			continue
		}
		at := m.at.UTC()
		if n := len(list); n > 0 {
			if at.Before(list[n-1].From) {
				at = list[n-1].From
			}
			list[n-1].To = at
		}
		list = append(list, Span{Stage: m.stage, From: at})
	}
	if n := len(list); n > 0 && !end.IsZero() {
		list[n-1].To = end.UTC()
		if end.Before(list[n-1].From) {
			list[n-1].To = list[n-1].From
		}
	}
	return list
}
