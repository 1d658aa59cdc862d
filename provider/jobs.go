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
// fills it, however many gangs there are. A failed query changes nothing in it.
type jobTable struct {
	manager  wlm.Manager
	interval time.Duration
	history  *history // nil for none; only run uses it
	said     string   // the last error that was logged; only run uses it

	mu     sync.Mutex
	byName map[string][]wlm.Job
	at     time.Time // when the query began whose answer this is
}

// leastPause is the least time between two queries, whatever happens. It also bounds from
// below how soon a job can be missing from several listings, and so count as lost.
const leastPause = 250 * time.Millisecond

// run queries until the context ends, at intervals and when the workload manager tells of
// changes. After each query it calls listed, with the names whose jobs have changed or
// vanished since the one before.
func (t *jobTable) run(ctx context.Context, listed func(changed []string, err error)) error {
	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()
	var changes <-chan struct{}
	if n, ok := t.manager.(wlm.Notifier); ok {
		changes = n.Changes(ctx)
	}
	for {
		changed, err := t.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		t.tell(ctx, err)
		listed(changed, err)
		pause := time.After(min(leastPause, t.interval))
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			continue
		case <-changes:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause:
		}
		select { // what else has happened meanwhile is in the same answer
		case <-changes:
		default:
		}
	}
}

// tell logs when the workload manager falls silent, when it does so in other
// words, and when it answers again; not at each query in between.
func (t *jobTable) tell(ctx context.Context, err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said == t.said {
		return
	}
	t.said = said
	log := logr.FromContextOrDiscard(ctx)
	if err != nil {
		log.Error(err, "the workload manager did not answer; nothing is changed until it does")
		return
	}
	log.Info("the workload manager answers again")
}

func (t *jobTable) refresh(ctx context.Context) (changed []string, err error) {
	at := time.Now()
	jobs, err := t.manager.List(ctx)
	if err != nil {
		return nil, err
	}
	byName := make(map[string][]wlm.Job, len(jobs))
	for _, j := range jobs {
		byName[j.Name] = append(byName[j.Name], j)
	}
	t.history.complete(ctx, byName, at)
	t.mu.Lock()
	defer t.mu.Unlock()
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

// active are the jobs that have not ended.
func (t *jobTable) active() []wlm.Job {
	active, _ := t.activeAt()
	return active
}

// activeAt is active, with the time of the query (zero if none has succeeded yet).
func (t *jobTable) activeAt() ([]wlm.Job, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var active []wlm.Job
	for _, jobs := range t.byName {
		for _, j := range jobs {
			if j.Phase != wlm.PhaseEnded && j.Phase != wlm.PhaseEnding {
				active = append(active, j)
			}
		}
	}
	return active, t.at
}

// named returns the jobs of a name as of the query that began at the returned
// time (zero if none has succeeded yet).
func (t *jobTable) named(name string) ([]wlm.Job, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name], t.at
}
