package provider

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/gangline/gangline/provider/wlm"
)

// jobTable is the workload manager's last listing. One query per interval
// fills it, however many gangs there are. A failed query changes nothing in it
// but the error.
type jobTable struct {
	manager  wlm.Manager
	interval time.Duration

	mu     sync.Mutex
	byName map[string][]wlm.Job
	at     time.Time // when the query began whose answer this is
	err    error
}

// run queries until the context ends. After each query it calls listed, with
// the names whose jobs have changed or vanished since the one before.
func (t *jobTable) run(ctx context.Context, listed func(changed []string, err error)) error {
	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()
	for {
		changed, err := t.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "the workload manager did not answer; nothing is changed until it does")
		}
		listed(changed, err)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (t *jobTable) refresh(ctx context.Context) (changed []string, err error) {
	at := time.Now()
	jobs, err := t.manager.List(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	if err != nil {
		return nil, err
	}
	byName := make(map[string][]wlm.Job, len(jobs))
	for _, j := range jobs {
		byName[j.Name] = append(byName[j.Name], j)
	}
	for name, now := range byName {
		if !reflect.DeepEqual(now, t.byName[name]) {
			changed = append(changed, name)
		}
	}
	for name := range t.byName {
		if _, still := byName[name]; !still {
			changed = append(changed, name)
		}
	}
	t.byName, t.at = byName, at
	return changed, nil
}

// named returns the jobs of a name as of the query that began at the returned
// time (zero if none has succeeded yet).
func (t *jobTable) named(name string) ([]wlm.Job, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name], t.at
}

// health is the last query's error.
func (t *jobTable) health() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
