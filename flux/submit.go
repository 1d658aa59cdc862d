package flux

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// The range of urgencies. RFC 30.
const (
	UrgencyHold     = 0 // the job waits until its urgency is raised
	UrgencyDefault  = 16
	UrgencyExpedite = 31
)

// SubmitOptions of Submit. The zero value is what flux-submit(1) does.
type SubmitOptions struct {
	// Urgency is from 1 to 31, UrgencyDefault if 0. Only an instance's owner may go
	// beyond the default.
	Urgency int
	// Hold submits with UrgencyHold.
	Hold bool
	// Waitable lets flux_job_wait(3) of other programs find the job; Wait needs it not.
	Waitable bool
}

const flagWaitable = 4

// Submit submits a job as the user that the process runs as. A jobspec that Flux does
// not take is an *Error. A job that no resources of the instance could ever hold is
// taken, and fails with an exception: Wait and Events tell.
//
// Calls of several goroutines are pipelined: SubmitAll does that for a list.
func (h *Handle) Submit(ctx context.Context, spec Jobspec, o SubmitOptions) (JobID, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, fmt.Errorf("writing the jobspec: %w", err)
	}
	r := request{submit: true, payload: string(text), urgency: o.Urgency}
	if o.Urgency == 0 && !o.Hold {
		r.urgency = UrgencyDefault
	}
	if o.Waitable {
		r.flags |= flagWaitable
	}
	var answer struct {
		ID JobID `json:"id"`
	}
	err = h.ask(ctx, r, &answer)
	return answer.ID, err
}

// Submitted is the fate of one of SubmitAll's jobs.
type Submitted struct {
	ID  JobID
	Err error
}

// SubmitAll submits jobs without waiting for one before the next is sent. The answers
// are in the order of the jobs.
func (h *Handle) SubmitAll(ctx context.Context, specs []Jobspec, o SubmitOptions) []Submitted {
	// More at a time gain nothing: the broker's ingest takes them in batches.
	const atATime = 256
	answers := make([]Submitted, len(specs))
	turn := make(chan struct{}, atATime)
	var all sync.WaitGroup
	for i, spec := range specs {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			answers[i].ID, answers[i].Err = h.Submit(ctx, spec, o)
		})
	}
	all.Wait()
	return answers
}

// Cancel has a job end: its tasks get SIGTERM, and SIGKILL some time later. The note is
// for people. A job that is over, or never was, is an *Error (ENOENT).
func (h *Handle) Cancel(ctx context.Context, id JobID, note string) error {
	return h.Raise(ctx, id, "cancel", 0, note)
}

// Raise raises an exception on a job. One of severity 0 ends it.
func (h *Handle) Raise(ctx context.Context, id JobID, kind string, severity int, note string) error {
	request := map[string]any{"id": id, "type": kind, "severity": severity}
	if note != "" {
		request["note"] = note
	}
	return h.RPC(ctx, "job-manager.raise", request, nil)
}

// Kill sends a signal to the tasks of a job that runs.
func (h *Handle) Kill(ctx context.Context, id JobID, signal int) error {
	return h.RPC(ctx, "job-manager.kill", map[string]any{"id": id, "signum": signal}, nil)
}

// SetUrgency changes a waiting job's urgency.
func (h *Handle) SetUrgency(ctx context.Context, id JobID, urgency int) error {
	return h.RPC(ctx, "job-manager.urgency", map[string]any{"id": id, "urgency": urgency}, nil)
}
