package provider

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/go-logr/logr"

	"github.com/gangline/gangline/provider/wlm"
)

// historyAgain is when a job that has gone from the listing is asked for again of which
// the workload manager's accounts knew nothing: they may be some seconds behind.
const historyAgain = 10 * time.Second

// history tells of jobs that the listing no longer has, where the workload manager keeps
// accounts: one query for all that are missing. Only one goroutine uses it.
type history struct {
	historian wlm.Historian // nil where there are no accounts
	// submitted are the jobs that the virtual nodes wait for.
	submitted func() []wlm.JobRef

	known map[string]wlm.Job   // by name
	asked map[string]time.Time // those of which nothing is known, by name
}

func newHistory(m wlm.Manager, submitted func() []wlm.JobRef) *history {
	h := &history{submitted: submitted, known: map[string]wlm.Job{}, asked: map[string]time.Time{}}
	h.historian, _ = m.(wlm.Historian)
	return h
}

// complete adds to a listing the jobs that are missing in it and are known to have
// ended. A failed query adds nothing.
func (h *history) complete(ctx context.Context, byName map[string][]wlm.Job, now time.Time) {
	if h == nil || h.historian == nil {
		return
	}
	missing := map[string]wlm.JobRef{}
	for _, ref := range h.submitted() {
		if _, listed := byName[ref.Name]; !listed && ref.Submitted.Before(now) {
			missing[ref.Name] = ref
		}
	}
	forget := func(name string) bool { _, still := missing[name]; return !still }
	maps.DeleteFunc(h.known, func(name string, _ wlm.Job) bool { return forget(name) })
	maps.DeleteFunc(h.asked, func(name string, _ time.Time) bool { return forget(name) })
	if err := h.ask(ctx, missing, now); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "the workload manager's accounts do not tell how jobs have ended")
	}
	for name, job := range h.known {
		byName[name] = []wlm.Job{job}
	}
}

func (h *history) ask(ctx context.Context, missing map[string]wlm.JobRef, now time.Time) error {
	var due []wlm.JobRef
	for name, ref := range missing {
		_, known := h.known[name]
		if !known && now.Sub(h.asked[name]) >= historyAgain {
			due = append(due, ref)
			h.asked[name] = now
		}
	}
	if len(due) == 0 {
		return nil
	}
	ended, err := h.historian.Ended(ctx, due)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		h.historian = nil
		return nil
	case err != nil:
		return err
	}
	maps.Copy(h.known, ended)
	return nil
}
