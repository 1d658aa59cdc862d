package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// Simulator is a simulated workload manager with its HPC nodes and agents.
type Simulator struct {
	options Options
	chance  *chance
	life    context.Context //nolint:containedctx // jobs outlive the calls that begin them
	end     context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	nodes   []*node
	jobs    map[string]*job // by id
	queue   []*job          // those that have no nodes yet, the oldest first
	nextJob int
	nextAt  int // where the search for free nodes begins
	faults  faults
	stats   Stats
	starts  map[string]int // runs of each pod, by UID

	accounts map[string]*Account // by the allocation's name
}

// Stats count what has happened.
type Stats struct {
	// Submitted are the jobs that were taken, Lists, Cancels and Inventories the calls.
	Submitted, Lists, Cancels, Inventories int
	// Queued and Running are the jobs now; Pods are those whose containers run.
	Queued, Running, Pods int
	// Started are the pods that have ever been started; Twice the UIDs of those that were
	// more than once, which must be none.
	Started int
	Twice   []string
}

type node struct {
	name   string
	number int
	free   translate.Resources
	down   bool
}

// job is one job of the queue. The simulator's lock guards it.
type job struct {
	number     int // its place in the order of submissions, from 1
	request    translate.Request
	job        wlm.Job
	places     []*node // of each task
	needs      []translate.Resources
	allocation *allocation // once it has nodes
	forgotten  bool
	fate       fate
}

// New makes a simulator. Its jobs run until Close.
func New(o Options) (*Simulator, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("making a simulated workload manager: %w", err)
	}
	s := &Simulator{options: o, chance: newChance(o.Seed), jobs: map[string]*job{}, starts: map[string]int{}, accounts: map[string]*Account{}}
	s.life, s.end = context.WithCancel(context.Background())
	for i := range o.Nodes {
		s.nodes = append(s.nodes, &node{name: "sim" + strconv.Itoa(i+1), number: i + 1, free: o.Node.resources()})
	}
	return s, nil
}

// Close ends all that is simulated where it stands, as a power cut would: nothing is
// written any more.
func (s *Simulator) Close() {
	s.end()
	s.running.Wait()
}

func (n NodeShape) resources() translate.Resources {
	return translate.Resources{CPUs: n.CPUs, MemoryMiB: n.MemoryMiB, GPUs: n.GPUs}
}

var _ wlm.Manager = (*Simulator)(nil)

// errSilent is what an injected failure of the workload manager says.
var errSilent = errors.New("the simulated workload manager does not answer")

// Name implements wlm.Manager.
func (s *Simulator) Name(context.Context) (string, error) { return "simulator", nil }

// Submit implements wlm.Manager.
func (s *Simulator) Submit(ctx context.Context, r translate.Request) (string, error) {
	verdict := s.call(submitFails, s.options.Failures.Submit)
	if err := pause(ctx, s.chance.spread("submit", s.options.Latency.Submit)); err != nil {
		return "", err
	}
	if verdict != nil {
		return "", verdict
	}
	var needs []translate.Resources
	for _, g := range r.Groups {
		for range g.Tasks {
			needs = append(needs, g.Resources)
		}
	}
	if i := slices.IndexFunc(needs, func(n translate.Resources) bool { return !fits(s.options.Node.resources(), n) }); i >= 0 {
		return "", &wlm.RejectedError{Message: fmt.Sprintf("no node has what task %d asks for", i)}
	}
	if s.chance.happens("refused", s.options.Failures.Refuse) {
		return "", &wlm.RejectedError{Message: "the simulated workload manager does not want this job"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextJob++
	s.stats.Submitted++
	j := &job{number: s.nextJob, request: r, needs: needs, job: wlm.Job{
		ID: strconv.Itoa(s.nextJob), Name: r.Name, User: s.options.User, State: "PENDING", Reason: "Priority",
		Phase: wlm.PhaseQueued, Submitted: time.Now(),
	}, fate: s.options.Failures.draw(s.chance)}
	account := s.account(r.Name)
	account.Submitted = append(account.Submitted, j.job.Submitted)
	s.jobs[j.job.ID] = j
	s.queue = append(s.queue, j)
	s.place()
	if s.faults.take(unanswered) || s.chance.happens(unanswered, s.options.Failures.Unanswered) {
		account.Unanswered++
		return "", errSilent
	}
	return j.job.ID, nil
}

// List implements wlm.Manager.
func (s *Simulator) List(ctx context.Context) ([]wlm.Job, error) {
	verdict := s.call(listFails, s.options.Failures.List)
	if err := pause(ctx, s.chance.spread("list", s.options.Latency.List)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Lists++
	if verdict != nil {
		return nil, verdict
	}
	all := make([]wlm.Job, 0, len(s.jobs))
	for id, j := range s.jobs {
		if j.job.Phase == wlm.PhaseEnded && time.Since(j.job.Ended) > s.options.Remember {
			delete(s.jobs, id)
			continue
		}
		if !j.forgotten {
			all = append(all, j.job)
		}
	}
	return all, nil
}

// Cancel implements wlm.Manager.
func (s *Simulator) Cancel(ctx context.Context, _, jobID string) error {
	verdict := s.call(cancelFails, s.options.Failures.Cancel)
	if err := pause(ctx, s.chance.spread("cancel", s.options.Latency.Cancel)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Cancels++
	if verdict != nil {
		return verdict
	}
	j := s.jobs[jobID]
	switch {
	case j == nil || j.job.Phase == wlm.PhaseEnded:
	case j.allocation == nil:
		s.queue = slices.DeleteFunc(s.queue, func(q *job) bool { return q == j })
		j.ended(wlm.OutcomeCancelled)
	default:
		j.job.State, j.job.Phase = "COMPLETING", wlm.PhaseEnding
		j.allocation.post(func(a *allocation) { a.interrupt(wlm.OutcomeCancelled) })
	}
	return nil
}

// Inventory implements wlm.Manager.
func (s *Simulator) Inventory(context.Context) (wlm.Inventory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Inventories++
	if s.faults.silent {
		return wlm.Inventory{}, errSilent
	}
	have := s.options.Node.resources()
	p := wlm.Partition{Name: s.options.Partition, Default: true}
	for _, n := range s.nodes {
		state := "IDLE"
		if n.down {
			state = "DOWN"
		}
		p.Nodes = append(p.Nodes, wlm.Node{
			Name: n.name, CPUs: have.CPUs, MemoryMiB: have.MemoryMiB, GPUs: have.GPUs,
			Used: have.Less(n.free), State: state, Usable: !n.down,
		})
	}
	return wlm.Inventory{Partitions: []wlm.Partition{p}, ComponentsShareNodes: true}, nil
}

// Stats are the counts of this moment.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Queued = len(s.queue)
	for _, j := range s.jobs {
		if j.allocation != nil && j.job.Phase != wlm.PhaseEnded {
			stats.Running++
		}
	}
	stats.Started = len(s.starts)
	for uid, n := range s.starts {
		if n > 1 {
			stats.Twice = append(stats.Twice, uid)
		}
	}
	slices.Sort(stats.Twice)
	return stats
}

// started counts a pod that begins to run.
func (s *Simulator) started(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts[uid]++
	s.stats.Pods++
}

// stopped counts one that has ended.
func (s *Simulator) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Pods--
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
