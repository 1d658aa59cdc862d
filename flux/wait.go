package flux

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// WaitStatus is a wait(2) status, as Flux counts a job's or a task's end.
type WaitStatus int

// Code is the exit code: 128 and the number of the signal where one ended the process.
func (s WaitStatus) Code() int {
	w := syscall.WaitStatus(s)
	if w.Signaled() {
		return 128 + int(w.Signal())
	}
	return w.ExitStatus()
}

// Result is how a job ended.
type Result struct {
	Outcome Outcome
	// Started tells whether its tasks were. If not, there is no Status.
	Started bool
	// Status is the highest of the shells'.
	Status WaitStatus
	// Exception is what ended the job by force; nil if nothing did.
	Exception *Exception
	// Submitted, Run and Ended are zero for what never was.
	Submitted, Run, Ended time.Time
}

// Wait waits for a job's end, also of one that has ended already.
func (h *Handle) Wait(ctx context.Context, id JobID) (Result, error) {
	var events []Event
	for e, err := range h.Events(ctx, id) {
		if err != nil {
			return Result{}, fmt.Errorf("waiting for job %s: %w", id, err)
		}
		events = append(events, e)
	}
	r, err := resultOf(events)
	if err != nil {
		return r, fmt.Errorf("waiting for job %s: %w", id, err)
	}
	return r, nil
}

// resultOf reads a complete eventlog. A job that ended before its start has no "finish"
// (RFC 21); then the exception is all that is known.
func resultOf(events []Event) (Result, error) {
	var r Result
	for _, e := range events {
		switch e.Name {
		case "submit":
			r.Submitted = e.Time
		case "start":
			r.Run = e.Time
		case "finish":
			status, err := e.Status()
			if err != nil {
				return r, err
			}
			r.Started, r.Status = true, status
		case "exception":
			x, err := e.Exception()
			if err != nil {
				return r, err
			}
			if x.Severity == 0 && r.Exception == nil {
				r.Exception = &x
			}
		case "clean":
			r.Ended = e.Time
		}
	}
	r.Outcome = outcomeOf(r)
	return r, nil
}

// outcomeOf is the rule by which Flux's own job-list finds a result.
func outcomeOf(r Result) Outcome {
	switch {
	case r.Started && r.Status == 0 && r.Exception == nil:
		return Completed
	case r.Exception != nil && r.Exception.Type == "cancel":
		return Canceled
	case r.Exception != nil && r.Exception.Type == "timeout":
		return Timeout
	}
	return Failed
}
