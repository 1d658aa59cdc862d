package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/gangline/gangline/agent/launch"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// allocation is a job's launcher and its agents. One goroutine is all of them.
type allocation struct {
	sim *Simulator
	job *job
	dir spool.Dir
	key *spool.Key

	messages chan func(*allocation)
	gone     chan struct{} // closed when nobody takes messages any more

	gang   spool.Gang
	seen   stamp // of gang.json
	agents []*agent
	due    deadlines
	looked time.Time // when all files were last looked at

	interrupted bool
	over        bool // the agents are gone
	outcome     wlm.Outcome
}

func newAllocation(s *Simulator, j *job) *allocation {
	return &allocation{
		sim: s, job: j, dir: spool.Dir(j.request.Dir),
		messages: make(chan func(*allocation), 16), gone: make(chan struct{}),
	}
}

// post has something done by the allocation's goroutine. It never waits long: the
// simulator's lock may be held.
func (a *allocation) post(do func(*allocation)) {
	go func() {
		select {
		case a.messages <- do:
		case <-a.gone:
		}
	}()
}

// run is the job's life from its place on nodes to its end.
func (a *allocation) run(ctx context.Context) {
	defer close(a.gone)
	if pause(ctx, a.sim.chance.spread("start", a.sim.options.Latency.Start)) != nil {
		return
	}
	a.sim.runs(a.job)
	switch err := a.launch(); {
	case errors.Is(err, spool.ErrClaimed):
		a.sim.finish(a.job, wlm.OutcomeCompleted) // a duplicate, which runs nothing
		return
	case err != nil:
		a.sim.options.Logger.Error("the simulated launcher failed", "job", a.job.job.ID, "error", err)
		a.sim.finish(a.job, wlm.OutcomeFailed)
		return
	}
	if fate := a.job.fate; fate.harm != "" {
		a.due.at(time.Now().Add(fate.after), func() { a.sim.suffer(a.job) })
	}
	a.serve(ctx)
	for _, g := range a.agents {
		g.count()
	}
	if ctx.Err() == nil {
		a.sim.finish(a.job, a.outcome)
	}
}

// launch takes the claim and starts the agents.
func (a *allocation) launch() error {
	found, err := spool.Read(a.dir.Gang(), &a.gang)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s is not there", a.dir.Gang())
	}
	err = a.dir.TakeClaim(spool.Claim{JobID: a.job.job.ID, Host: a.job.places[0].name, Acquired: time.Now()})
	if err != nil {
		return err
	}
	if a.key, err = spool.NewKey(); err != nil {
		return err
	}
	a.agents = make([]*agent, len(a.gang.Slots))
	for task, slots := range a.gang.Tasks {
		for _, k := range slots {
			if task >= len(a.job.places) || k >= len(a.agents) {
				return fmt.Errorf("task %d of slot %d has no place", task, k)
			}
			a.agents[k] = newAgent(a, k, a.job.places[task])
		}
	}
	for k, g := range a.agents {
		if g == nil {
			return fmt.Errorf("slot %d has no task", k)
		}
		a.due.at(time.Now().Add(a.sim.chance.spread("agent", a.sim.options.Latency.Agent)), g.report)
	}
	if end := a.job.job.LimitEnd; !end.IsZero() {
		a.due.at(end, func() { a.interrupt(wlm.OutcomeTimeout) })
	}
	return nil
}

// serve follows the files until the agents are gone.
func (a *allocation) serve(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !a.over {
		select {
		case <-ctx.Done():
			return
		case do := <-a.messages:
			do(a)
		case <-timer.C:
		}
		now := time.Now()
		a.due.run(now)
		if now.Sub(a.looked) >= a.interval() {
			a.looked = now
			a.look()
		}
		if a.leaving() && !slices.ContainsFunc(a.agents, (*agent).busy) && !a.over {
			a.leave()
		}
		wake := a.looked.Add(a.interval())
		if next := a.due.next(); !next.IsZero() && next.Before(wake) {
			wake = next
		}
		timer.Reset(max(time.Until(wake), time.Millisecond))
	}
}

// interval is how long nobody looks at the files.
func (a *allocation) interval() time.Duration {
	if slices.ContainsFunc(a.agents, (*agent).waits) {
		return a.sim.options.Look
	}
	return a.sim.options.Idle
}

// leaving tells that the agents are to go.
func (a *allocation) leaving() bool { return a.gang.Release || a.interrupted }

// look reads what has changed of the node's files.
func (a *allocation) look() {
	if changed(a.dir.Gang(), &a.seen) {
		var g spool.Gang
		if found, err := spool.Read(a.dir.Gang(), &g); err == nil && found {
			a.gang = g
		}
	}
	if a.leaving() {
		for _, g := range a.agents {
			g.stop(a.interrupted)
		}
		return
	}
	for _, g := range a.agents {
		g.look()
	}
}

// leave is the agents' and the launcher's regular end.
func (a *allocation) leave() {
	a.over = true
	result, err := launch.Outcome(a.dir, 0, time.Now())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if a.interrupted && result.ExitCode == 0 {
		const terminated = 128 + int(syscall.SIGTERM)
		result.ExitCode, result.Message = terminated, spool.AskedToEnd
	}
	if a.outcome == wlm.OutcomeNone {
		a.outcome = wlm.OutcomeCompleted
		if result.ExitCode != 0 {
			a.outcome = wlm.OutcomeFailed
		}
	}
	a.write(a.dir.Result(), result)
}

// interrupt asks the agents to end by signal, as the workload manager does before it kills.
func (a *allocation) interrupt(outcome wlm.Outcome) {
	a.interrupted, a.outcome = true, cmp.Or(a.outcome, outcome)
	a.looked = time.Time{}
}

// vanish ends all of it without a word.
func (a *allocation) vanish(outcome wlm.Outcome) { a.over, a.outcome = true, outcome }

// harms are what is done to an allocation, by the one whose harm it is.
var harms = map[Harm]func(*allocation){
	HarmNode:      func(a *allocation) { a.vanish(wlm.OutcomeNodeFailure) },
	HarmAgents:    (*allocation).agentsDied,
	HarmPreempted: func(a *allocation) { a.interrupt(wlm.OutcomePreempted) },
}

// agentsDied is what the launcher does when agents are gone that should not be.
func (a *allocation) agentsDied() {
	const killed = 128 + int(syscall.SIGKILL)
	result, err := launch.Outcome(a.dir, killed, time.Now())
	if err == nil {
		a.write(a.dir.Result(), result)
	}
	a.vanish(wlm.OutcomeFailed)
}

// endPods ends the containers that run.
func (a *allocation) endPods(exitCode int32) {
	for _, g := range a.agents {
		g.end(g.pod, exitCode)
	}
}

// write writes a file of the spool. A directory that was removed meanwhile needs none.
func (a *allocation) write(path string, v any) {
	if err := spool.Write(path, v); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.sim.options.Logger.Error("a simulated agent could not write", "job", a.job.job.ID, "error", err)
	}
}

// stamp tells one version of a file from the next.
type stamp struct {
	inode    uint64
	modified int64
}

// changed tells whether a file is another than that of the stamp, which it renews.
func changed(path string, last *stamp) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	now := stamp{modified: info.ModTime().UnixNano()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		now.inode = system.Ino
	}
	if now == *last {
		return false
	}
	*last = now
	return true
}
