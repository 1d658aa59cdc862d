package local

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// Manager is the embedded workload manager. Its jobs start, and their ends are
// seen, only while Run runs.
type Manager struct {
	cfg   Config
	store *store
	boot  string
	user  string
	env   []string // of every agent
	now   func() time.Time
	wake  chan struct{}

	mu   sync.Mutex
	jobs []*job // in the order of submission
}

var _ wlm.Manager = (*Manager)(nil)

// New takes the state directory and finds the jobs of earlier managers in it. It
// fails while another manager has it. Call Close in the end.
func New(cfg Config) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configuring the local workload manager: %w", err)
	}
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("looking up the provider's own user: %w", err)
	}
	m := &Manager{
		cfg: cfg, user: me.Username, now: time.Now, wake: make(chan struct{}, 1),
		env: append([]string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=" + me.HomeDir, "USER=" + me.Username, "LOGNAME=" + me.Username, "LANG=C.UTF-8",
		}, cfg.Env...),
	}
	if m.boot, err = bootID(); err != nil {
		return nil, err
	}
	if m.store, err = openStore(cfg.StateDir); err != nil {
		return nil, err
	}
	if m.jobs, err = m.store.load(); err != nil {
		return nil, fmt.Errorf("%w; %w", err, m.store.close())
	}
	return m, nil
}

// Close gives the state directory back. Jobs run on. Call it after Run's end.
func (m *Manager) Close() error { return m.store.close() }

// Submit implements wlm.Manager. A request that this cluster could not hold even
// if it were empty is refused, and so is what it has nothing for. Account, QOS, niceness
// and the workload characterization key mean nothing here, as in a Slurm without
// accounting or in which nobody else waits.
func (m *Manager) Submit(_ context.Context, r translate.Request) (string, error) {
	if reason := m.refusal(r); reason != "" {
		return "", &wlm.RejectedError{Message: reason}
	}
	if _, err := os.Stat(r.Dir); err != nil {
		return "", fmt.Errorf("submitting %s: its directory: %w", r.Name, err)
	}
	j := &job{User: m.user, Request: r, Submitted: m.now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.store.add(j); err != nil {
		return "", fmt.Errorf("submitting %s: %w", r.Name, err)
	}
	m.jobs = append(m.jobs, j)
	m.poke()
	return j.ID, nil
}

// refusal is why a request can never run, or empty.
func (m *Manager) refusal(r translate.Request) string {
	tasks := 0
	for _, g := range r.Groups {
		if g.Tasks < 1 || g.CPUs < 1 || g.MemoryMiB < 0 || g.GPUs < 0 {
			return fmt.Sprintf("a group of %d tasks of %d CPUs, %d MiB and %d GPUs makes no sense", g.Tasks, g.CPUs, g.MemoryMiB, g.GPUs)
		}
		if g.Gres != "" {
			return fmt.Sprintf("there is no %q; the local workload manager has only GPUs of no type", g.Gres)
		}
		tasks += g.Tasks
	}
	for _, wish := range []struct{ what, value string }{
		{"licenses", r.Licenses}, {"dependency", r.Dependency}, {"number of switches", r.Switches.String()}, {"number of nodes", r.NodeRange()},
	} {
		if wish.value != "" {
			return fmt.Sprintf("the %s %q cannot be asked of the local workload manager; do without", wish.what, wish.value)
		}
	}
	switch {
	case len(r.Flags) > 0:
		return fmt.Sprintf("%s cannot be asked of the local workload manager; do without", r.Flags[0])
	case r.Partition != "" && r.Partition != m.cfg.Partition:
		return fmt.Sprintf("there is no partition %q; the only one is %q", r.Partition, m.cfg.Partition)
	case r.Constraint != "":
		return fmt.Sprintf("no node has the features %q; the local workload manager's nodes have none", r.Constraint)
	case r.Reservation != "":
		return fmt.Sprintf("there is no reservation %q; the local workload manager has none", r.Reservation)
	case tasks == 0:
		return "the request asks for no task"
	case !filepath.IsAbs(r.Agent) || !filepath.IsAbs(r.Dir):
		return fmt.Sprintf("the agent %q and the directory %q must be absolute paths", r.Agent, r.Dir)
	case !m.canFit(r):
		return "the nodes could not hold the request even if they were empty"
	}
	return ""
}

func (m *Manager) canFit(r translate.Request) bool {
	_, ok := place(m.cfg.Nodes, nil, r)
	return ok
}

// List implements wlm.Manager.
func (m *Manager) List(context.Context) ([]wlm.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := make([]wlm.Job, 0, len(m.jobs))
	waiting := "Resources" // of the first in the queue; it holds up the others
	for _, j := range m.jobs {
		jobs = append(jobs, j.listed(waiting))
		if j.phase() == wlm.PhaseQueued {
			waiting = "Priority"
		}
	}
	return jobs, nil
}

// Cancel implements wlm.Manager: SIGTERM now, SIGKILL after Config.Grace.
func (m *Manager) Cancel(_ context.Context, _, jobID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.jobs, func(j *job) bool { return j.ID == jobID })
	if i < 0 {
		return nil
	}
	var err error
	switch j := m.jobs[i]; j.phase() {
	case wlm.PhaseQueued:
		err = m.end(j, wlm.OutcomeCancelled, "")
	case wlm.PhaseRunning:
		err = m.stop(j, wlm.OutcomeCancelled, "")
	}
	if err != nil {
		return fmt.Errorf("cancelling job %s: %w", jobID, err)
	}
	m.poke()
	return nil
}

// Inventory implements wlm.Manager.
func (m *Manager) Inventory(context.Context) (wlm.Inventory, error) {
	m.mu.Lock()
	used := m.used()
	m.mu.Unlock()
	p := wlm.Partition{Name: m.cfg.Partition, Default: true}
	for _, n := range m.cfg.Nodes {
		state := "idle"
		switch u := used[n.Name]; {
		case u.exclusive, u.cpus >= n.CPUs:
			state = "allocated"
		case u.tasks > 0:
			state = "mixed"
		}
		p.Nodes = append(p.Nodes, wlm.Node{
			Name: n.Name, CPUs: n.CPUs, MemoryMiB: n.MemoryMiB, GPUs: n.GPUs, State: state, Usable: true,
		})
	}
	return wlm.Inventory{Partitions: []wlm.Partition{p}, ComponentsShareNodes: true}, nil
}

// Name implements wlm.Manager.
func (m *Manager) Name(context.Context) (string, error) { return "local", nil }

// used sums up what the running jobs hold, by node.
func (m *Manager) used() map[string]usage {
	used := map[string]usage{}
	for _, j := range m.jobs {
		if !j.holdsResources() {
			continue
		}
		for _, p := range j.Places {
			u := used[p.Node]
			u.add(p)
			used[p.Node] = u
		}
	}
	return used
}

// poke makes the scheduler look again.
func (m *Manager) poke() {
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}
