package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
)

// How long "nothing has changed" is believed. That answer is about slurmctld's clock,
// which may have been set; and what the scheduler finds out about waiting jobs, their
// reason and their expected start, is no change to it (seen with Slurm 22.05). A list that
// takes long, of many others' jobs, is asked for the less often.
const (
	believed        = time.Minute
	believedWaiting = 5 * time.Second
	believedPerTook = 20
)

// listing is the last list of jobs.
type listing struct {
	jobs []wlm.Job
	// since is a time on slurmctld's clock that the list is not older than; 0 for none.
	since int64
	// askClock tells that slurmctld's clock must be asked before the next list, for a
	// list does not tell its own time.
	askClock bool
	// until is how long the list is good without a change, on our clock.
	until time.Time
}

type jobsAnswer struct {
	answer
	// Updated is the list's own time on slurmctld's clock, from v0.0.40 on.
	Updated number    `json:"last_update"`
	Jobs    []jobInfo `json:"jobs"`
}

type jobInfo struct {
	ID        number `json:"job_id"`
	Leader    number `json:"het_job_id"`
	Offset    number `json:"het_job_offset"`
	Name      string `json:"name"`
	User      string `json:"user_name"`
	State     list   `json:"job_state"`
	Reason    string `json:"state_reason"`
	Told      string `json:"state_description"`
	Nodes     string `json:"nodes"`
	Submitted number `json:"submit_time"`
	Started   number `json:"start_time"`
	Ended     number `json:"end_time"`
}

// List implements wlm.Manager. While nothing has changed slurmctld says so, and nothing
// is sent.
func (m *Manager) List(ctx context.Context) ([]wlm.Job, error) {
	var last *listing
	select {
	case last = <-m.jobs:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another list of jobs: %w", context.Cause(ctx))
	}
	next, err := m.list(ctx, last)
	m.jobs <- next
	if err != nil {
		return nil, err
	}
	return slices.Clone(next.jobs), nil
}

// list returns the next listing, or the last one with an error.
func (m *Manager) list(ctx context.Context, last *listing) (*listing, error) {
	next := *last
	if last.askClock {
		now, err := m.clock(ctx)
		if err != nil {
			return last, err
		}
		next.since, next.askClock = now, false
	}
	path := "/jobs/"
	if last.since != 0 && time.Now().Before(last.until) {
		path += "?update_time=" + strconv.FormatInt(last.since, 10)
	}
	var a jobsAnswer
	began := time.Now()
	switch err := m.call(ctx, http.MethodGet, path, &a); {
	case errors.Is(err, errNotModified):
		next.since = last.since // nothing is newer than it was
		return &next, nil
	case err != nil:
		return last, err
	}
	owner, err := m.owner()
	if err != nil {
		return last, err
	}
	next.jobs = jobsOf(a.Jobs, owner)
	next.until = began.Add(max(patience(next.jobs), believedPerTook*time.Since(began)))
	if a.Updated.set {
		next.since = a.Updated.value
	} else if !last.askClock {
		next.askClock = true
	}
	return &next, nil
}

func patience(jobs []wlm.Job) time.Duration {
	if slices.ContainsFunc(jobs, func(j wlm.Job) bool { return j.Phase == wlm.PhaseQueued }) {
		return believedWaiting
	}
	return believed
}

// clock is the time on slurmctld's clock, in seconds since 1970.
func (m *Manager) clock(ctx context.Context) (int64, error) {
	var a struct {
		answer
		Statistics struct {
			Now number `json:"req_time"`
		} `json:"statistics"`
	}
	if err := m.call(ctx, http.MethodGet, "/diag/", &a); err != nil {
		return 0, fmt.Errorf("asking for slurmctld's time: %w", err)
	}
	if a.Statistics.Now.value == 0 {
		return 0, errors.New("asking for slurmctld's time: slurmrestd does not tell it")
	}
	return a.Statistics.Now.value, nil
}

// owner is the user whose jobs count.
func (m *Manager) owner() (string, error) {
	if m.cfg.User != "" {
		return m.cfg.User, nil
	}
	t, err := readToken(m.cfg.TokenFile, time.Now())
	return t.user, err
}

func jobsOf(infos []jobInfo, owner string) []wlm.Job {
	var components []slurm.Component
	for _, j := range infos {
		if j.User != owner {
			continue
		}
		id, offset := j.ID.value, 0
		if j.Leader.value != 0 {
			id, offset = j.Leader.value, int(j.Offset.value)
		}
		reason := j.Reason
		if j.Told != "" {
			reason = j.Told // squeue, too, puts slurmctld's own words first
		}
		c := slurm.NewComponent(strconv.FormatInt(id, 10), offset, slurm.StateOf(j.State...), reason, j.Nodes,
			timeOf(j.Started), timeOf(j.Ended))
		c.User, c.Name, c.Submitted = j.User, j.Name, timeOf(j.Submitted)
		components = append(components, c)
	}
	return slurm.Fold(components)
}

// timeOf is zero where a time is not known.
func timeOf(n number) time.Time {
	if n.value == 0 {
		return time.Time{}
	}
	return time.Unix(n.value, 0).UTC()
}
