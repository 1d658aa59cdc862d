package flux

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/gangline/gangline/flux"
)

// followAgain is the pause before events are asked for anew.
const followAgain = time.Second

// telling are the events after which a job looks different to a gang.
func telling() []string {
	return []string{"submit", "depend", "priority", "urgency", "start", "exception", "finish", "clean"}
}

// Changes implements wlm.Notifier: by the journal of all jobs, which is for the instance's
// owner, else by the events of each job that has been listed. What a scheduler says of a job
// that waits is no event.
func (m *Manager) Changes(ctx context.Context) <-chan struct{} {
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it is known already
		}
	}
	go m.follow(ctx, tell)
	return changed
}

func (m *Manager) follow(ctx context.Context, tell func()) {
	for ctx.Err() == nil {
		err := m.journal(ctx, tell)
		var refused *flux.Error
		if errors.As(err, &refused) && refused.Errno == syscall.EPERM {
			m.watches.begin(ctx, tell)
			return
		}
		tell() // that the broker is away is news as well
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// journal tells of each of the journal's entries until it ends.
func (m *Manager) journal(ctx context.Context, tell func()) error {
	h, err := m.flux.open(ctx)
	if err != nil {
		return err
	}
	for _, err := range h.Journal(ctx, telling()...) {
		if err != nil {
			return err
		}
		tell()
	}
	return nil
}

// watch tells of each of a job's events until its last.
func (m *Manager) watch(ctx context.Context, id flux.JobID, tell func()) {
	h, err := m.flux.open(ctx)
	if err != nil {
		return // the next listing has the job watched again
	}
	for _, err := range h.Events(ctx, id) {
		if err != nil {
			return
		}
		tell()
	}
}

// watches are the jobs whose events are watched one by one. The zero value watches none.
type watches struct {
	mu   sync.Mutex
	ctx  context.Context // nil before begin
	tell func()
	jobs map[flux.JobID]bool
}

// begin has the jobs that add is called with watched from now on.
func (w *watches) begin(ctx context.Context, tell func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.tell, w.jobs = ctx, tell, map[flux.JobID]bool{}
}

// add has those of the jobs watched that are not over and not watched yet.
func (w *watches) add(jobs []flux.Job, watch func(context.Context, flux.JobID, func())) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		return
	}
	for _, j := range jobs {
		if j.State == flux.StateInactive || w.jobs[j.ID] {
			continue
		}
		w.jobs[j.ID] = true
		go func() {
			watch(w.ctx, j.ID, w.tell)
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.jobs, j.ID)
		}()
	}
}
