package rest

import (
	"context"
	"errors"
	"fmt"
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
	// whose are the users whose jobs it has.
	whose whose
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
	User      string `json:"user_name"` // null for one whom slurmrestd's machine does not know
	UID       number `json:"user_id"`
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
func (m *Manager) list(ctx context.Context, last *listing) (_ *listing, err error) {
	next := *last
	if last.askClock {
		now, err := m.clock(ctx)
		if err != nil {
			return last, err
		}
		next.since, next.askClock = now, false
	}
	next.whose, err = m.whose()
	if err != nil {
		return last, err
	}
	path := "/jobs/"
	if last.since != 0 && time.Now().Before(last.until) && next.whose.equal(last.whose) {
		path += "?update_time=" + strconv.FormatInt(last.since, 10)
	}
	var a jobsAnswer
	began := time.Now()
	switch err := m.ask(ctx, path, &a); {
	case errors.Is(err, errNotModified):
		next.since = last.since // nothing is newer than it was
		return &next, nil
	case err != nil:
		return last, err
	}
	if next.jobs, err = jobsOf(a.Jobs, next.whose); err != nil {
		return last, err
	}
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
	if err := m.ask(ctx, "/diag/", &a); err != nil {
		return 0, fmt.Errorf("asking for slurmctld's time: %w", err)
	}
	if a.Statistics.Now.value == 0 {
		return 0, errors.New("asking for slurmctld's time: slurmrestd does not tell it")
	}
	return a.Statistics.Now.value, nil
}

// whose are the users whose jobs count: those of these numbers or, without any, one of a
// name.
type whose struct {
	uids   []int
	name   string
	owners *slurm.Owners
}

func (m *Manager) whose() (whose, error) {
	if m.cfg.Users != nil {
		if uids := m.cfg.Users(); len(uids) > 0 {
			return whose{uids: slices.Sorted(slices.Values(uids)), owners: &m.owners}, nil
		}
	}
	proof, err := m.client.tokens.of(asker, time.Now())
	return whose{name: proof.user, owners: &m.owners}, err
}

func (w whose) equal(other whose) bool {
	return w.name == other.name && slices.Equal(w.uids, other.uids)
}

func (w whose) job(j jobInfo) (name string, counts bool, err error) {
	uid := int(j.UID.value)
	if w.name == "" {
		return w.owners.Among(w.uids, uid, j.User)
	}
	name = j.User
	if j.UID.set {
		name = w.owners.Name(uid, j.User)
	}
	return name, name == w.name, nil
}

func jobsOf(infos []jobInfo, of whose) ([]wlm.Job, error) {
	var components []slurm.Component
	for _, j := range infos {
		name, counts, err := of.job(j)
		if err != nil {
			return nil, fmt.Errorf("reading slurmrestd's list of jobs: %w", err)
		}
		if !counts {
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
		c.User, c.Name, c.Submitted = name, j.Name, timeOf(j.Submitted)
		components = append(components, c)
	}
	return slurm.Fold(components), nil
}

// timeOf is zero where a time is not known.
func timeOf(n number) time.Time {
	if n.value == 0 {
		return time.Time{}
	}
	return time.Unix(n.value, 0).UTC()
}
