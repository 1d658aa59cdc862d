package slurm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/wlm"
)

// Component is a job, or one component of a heterogeneous job: then its ID is the
// leader's, and Offset its place.
type Component struct {
	wlm.Job
	Offset int
}

// NewComponent is a component with what follows from Slurm's own words: its phase, its
// outcome, and its reason explained. start and end are Slurm's, which mean another thing
// in each phase; nodes are those it has or had.
func NewComponent(id string, offset int, state State, reason, nodes string, start, end time.Time) Component {
	c := Component{Offset: offset, Job: wlm.Job{ID: id, State: state.Name, Phase: state.Phase, Outcome: state.Outcome, Nodes: nodes}}
	if reason != "None" {
		c.Reason, c.Explanation = reason, Explain(reason)
	}
	switch {
	case c.Phase == wlm.PhaseQueued:
		c.ExpectedStart = start
	case c.Nodes != "": // a job that never started shows its end as its start
		c.Started = start
	}
	switch c.Phase {
	case wlm.PhaseEnded:
		c.Ended = end
	case wlm.PhaseRunning:
		c.LimitEnd = end // until it ends, it is the end of the time limit
	}
	return c
}

// Fold makes one job of the components of each heterogeneous job, in the order of the
// first that is seen of each.
func Fold(list []Component) []wlm.Job {
	var order []string
	components := map[string][]Component{}
	for _, c := range list {
		if components[c.ID] == nil {
			order = append(order, c.ID)
		}
		components[c.ID] = append(components[c.ID], c)
	}
	jobs := make([]wlm.Job, 0, len(order))
	for _, id := range order {
		jobs = append(jobs, fold(components[id]))
	}
	return jobs
}

// fold makes one job of a heterogeneous job's components. The leader's word
// counts where they differ in nothing that matters.
func fold(all []Component) wlm.Job {
	slices.SortFunc(all, func(a, b Component) int { return cmp.Compare(a.Offset, b.Offset) })
	job := all[0].Job
	if len(all) == 1 {
		return job
	}
	job.Phase = foldPhase(all)
	shown := all[0] // one whose state fits the phase
	if i := slices.IndexFunc(all, func(c Component) bool { return c.Phase == job.Phase }); i >= 0 {
		shown = all[i]
	}
	job.State, job.Reason, job.Explanation, job.Outcome = shown.State, shown.Reason, shown.Explanation, wlm.OutcomeNone
	var nodes []string
	for _, c := range all {
		if c.Nodes != "" {
			nodes = append(nodes, c.Nodes)
		}
		if job.Reason == "" {
			job.Reason, job.Explanation = c.Reason, c.Explanation
		}
		job.ExpectedStart = later(job.ExpectedStart, c.ExpectedStart)
		job.Ended = later(job.Ended, c.Ended)
		job.LimitEnd = earlier(job.LimitEnd, c.LimitEnd)
	}
	job.Nodes = strings.Join(nodes, ",")
	if job.Phase == wlm.PhaseEnded {
		cause := slices.MaxFunc(all, func(a, b Component) int {
			return cmp.Compare(severity(a.Outcome), severity(b.Outcome))
		})
		job.State, job.Outcome = cause.State, cause.Outcome
		if cause.Reason != "" {
			job.Reason, job.Explanation = cause.Reason, cause.Explanation
		}
	} else {
		job.Ended = time.Time{}
	}
	return job
}

// foldPhase is the phase of a whole: it has ended when all of it has, and it is
// on its way between two phases that its components are in.
func foldPhase(all []Component) wlm.Phase {
	phases := map[wlm.Phase]bool{}
	for _, c := range all {
		phases[c.Phase] = true
	}
	switch {
	case len(phases) == 1:
		return all[0].Phase
	case phases[wlm.PhaseUnknown]:
		return wlm.PhaseUnknown
	case phases[wlm.PhaseEnded], phases[wlm.PhaseEnding]:
		return wlm.PhaseEnding
	default:
		return wlm.PhaseStarting
	}
}

// severity orders outcomes: when one component fails, Slurm cancels the others,
// so the others' outcome explains nothing. Among equals the leader is first.
func severity(o wlm.Outcome) int {
	switch o {
	case wlm.OutcomeFailed:
		return 1
	case wlm.OutcomeTimeout:
		return 2
	case wlm.OutcomePreempted:
		return 3
	case wlm.OutcomeOutOfMemory:
		return 4
	case wlm.OutcomeNodeFailure:
		return 5
	default:
		return 0
	}
}

// earlier is the earlier of two times that are known.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
