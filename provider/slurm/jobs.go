package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/wlm"
)

// ASCII's own separators: squeue passes them on, and no name that this product
// gives has them. A job's name is its user's and may hold anything else, line
// ends included; so it comes last.
const (
	recordSeparator = "\x1e"
	fieldSeparator  = "\x1f"
)

// squeueFormat gives a record per job: id, state, user, nodes, times of
// submission, start and end, reason, name. Source: squeue(1), --format.
const squeueFormat = recordSeparator + "%i" + fieldSeparator + "%T" + fieldSeparator + "%u" + fieldSeparator + "%N" +
	fieldSeparator + "%V" + fieldSeparator + "%S" + fieldSeparator + "%e" + fieldSeparator + "%r" + fieldSeparator + "%j"

// component is a job, or one component of a heterogeneous job.
type component struct {
	wlm.Job
	offset int
}

// parseJobs reads squeue's output. The components of a heterogeneous job are one
// job under their leader's id.
func parseJobs(out string) ([]wlm.Job, error) {
	records := strings.Split(out, recordSeparator)
	if strings.TrimSpace(records[0]) != "" {
		return nil, fmt.Errorf("reading squeue's list: it starts with %q", records[0])
	}
	var order []string
	components := map[string][]component{}
	for _, record := range records[1:] {
		c, err := parseRecord(record)
		if err != nil {
			return nil, fmt.Errorf("reading squeue's list: %w", err)
		}
		if components[c.ID] == nil {
			order = append(order, c.ID)
		}
		components[c.ID] = append(components[c.ID], c)
	}
	jobs := make([]wlm.Job, 0, len(order))
	for _, id := range order {
		jobs = append(jobs, fold(components[id]))
	}
	return jobs, nil
}

func parseRecord(record string) (component, error) {
	const fields = 9
	f := strings.SplitN(strings.TrimSuffix(record, "\n"), fieldSeparator, fields)
	if len(f) != fields {
		return component{}, fmt.Errorf("%q has %d fields, not %d", record, len(f), fields)
	}
	c := component{Job: wlm.Job{State: f[1], User: f[2], Nodes: f[3], Submitted: parseTime(f[4]), Name: f[8]}}
	id, offset, heterogeneous := strings.Cut(f[0], "+")
	if heterogeneous {
		var err error
		if c.offset, err = strconv.Atoi(offset); err != nil {
			return component{}, fmt.Errorf("%q is no job id", f[0])
		}
	}
	if first, _, _ := strings.Cut(id, "_"); !isNumber(first) { // 12, or 12_3 in an array
		return component{}, fmt.Errorf("%q is no job id", f[0])
	}
	c.ID = id
	c.Phase, c.Outcome = jobPhase(c.State)
	if f[7] != "None" {
		c.Reason = f[7]
	}
	start, end := parseTime(f[5]), parseTime(f[6])
	switch {
	case c.Phase == wlm.PhaseQueued:
		c.ExpectedStart = start
	case c.Nodes != "": // a job that never started shows its end as its start
		c.Started = start
	}
	if c.Phase == wlm.PhaseEnded {
		c.Ended = end // before, it is the end of the time limit
	}
	return c, nil
}

// parseTime is zero for "N/A", "NONE", "Unknown" and the like.
func parseTime(s string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// fold makes one job of a heterogeneous job's components. The leader's word
// counts where they differ in nothing that matters.
func fold(all []component) wlm.Job {
	slices.SortFunc(all, func(a, b component) int { return cmp.Compare(a.offset, b.offset) })
	job := all[0].Job
	if len(all) == 1 {
		return job
	}
	job.Phase = foldPhase(all)
	shown := all[0] // one whose state fits the phase
	if i := slices.IndexFunc(all, func(c component) bool { return c.Phase == job.Phase }); i >= 0 {
		shown = all[i]
	}
	job.State, job.Reason, job.Outcome = shown.State, shown.Reason, wlm.OutcomeNone
	var nodes []string
	for _, c := range all {
		if c.Nodes != "" {
			nodes = append(nodes, c.Nodes)
		}
		job.Reason = cmp.Or(job.Reason, c.Reason)
		job.ExpectedStart = later(job.ExpectedStart, c.ExpectedStart)
		job.Ended = later(job.Ended, c.Ended)
	}
	job.Nodes = strings.Join(nodes, ",")
	if job.Phase == wlm.PhaseEnded {
		cause := slices.MaxFunc(all, func(a, b component) int {
			return cmp.Compare(severity(a.Outcome), severity(b.Outcome))
		})
		job.State, job.Outcome = cause.State, cause.Outcome
		job.Reason = cmp.Or(cause.Reason, job.Reason)
	} else {
		job.Ended = time.Time{}
	}
	return job
}

// foldPhase is the phase of a whole: it has ended when all of it has, and it is
// on its way between two phases that its components are in.
func foldPhase(all []component) wlm.Phase {
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

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
