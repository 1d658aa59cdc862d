package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gangline/gangline/agent/launch"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// pollEvery is how often running jobs are looked at. A manager hears of the end
// of what it has started itself; but there is nobody to tell it of what an
// earlier manager started, nor of time.
const pollEvery = 200 * time.Millisecond

// Run starts jobs and sees to their ends until ctx ends. Jobs run on then.
func (m *Manager) Run(ctx context.Context) error {
	for {
		m.step()
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		case <-time.After(m.pause()):
		}
	}
}

// step does what is due.
func (m *Manager) step() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	for _, j := range m.jobs {
		m.tend(j)
	}
	m.startQueued()
}

// pause is how long nothing is due, unless the manager is woken.
func (m *Manager) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.ContainsFunc(m.jobs, func(j *job) bool { return j.phase() != wlm.PhaseEnded }) {
		return pollEvery
	}
	return m.cfg.Retention
}

// startQueued starts jobs in their order. The first that must wait holds up all
// others, so that a large gang is not passed for ever by small ones.
func (m *Manager) startQueued() {
	for _, j := range m.jobs {
		if j.phase() != wlm.PhaseQueued {
			continue
		}
		places, ok := place(m.cfg.Nodes, m.used(), j.Request)
		if !ok && m.canFit(j.Request) {
			return
		}
		var err error
		if ok {
			err = m.update(j, func(j *job) { j.Started, j.Boot, j.Places = m.now(), m.boot, places })
		} else { // the nodes were others when it was submitted
			err = m.end(j, wlm.OutcomeFailed, "the nodes could not hold the job even if they were empty")
		}
		if err != nil {
			m.log(j, "starting a job", err)
			return
		}
		m.tend(j)
	}
}

// tend moves a running job on: it starts what is not started, ends what has
// failed or is out of time, and closes what has ended.
func (m *Manager) tend(j *job) {
	if !j.holdsResources() {
		return
	}
	tasks := j.tasks(m.store.jobDir(j.ID))
	if !j.claimed && !slices.ContainsFunc(tasks, task.hasTraces) && !m.claim(j) {
		return
	}
	j.claimed = true
	sameBoot := j.Boot == m.boot
	left, highest, lost := 0, 0, false
	for _, t := range tasks {
		progress, status, err := t.progress(sameBoot)
		if err != nil {
			m.log(j, "looking at a task", err)
			return
		}
		switch {
		case !sameBoot && (progress == unstarted || status == killed):
			lost = true
		case progress == unstarted:
			progress, err = m.start(j, t)
			m.fail(j, err)
		case status != 0:
			m.fail(j, fmt.Errorf("the agent of task %d on %s ended with status %d", t.number, j.Places[t.number].Node, status))
		}
		if progress == running {
			left++
		}
		highest = max(highest, status)
	}
	if over, limited := j.timeLeft(m.now()); limited && over <= 0 && left > 0 && j.Stop == nil {
		m.log(j, "ending a job at its time limit", m.stop(j, wlm.OutcomeTimeout, "TimeLimit"))
	}
	switch {
	case left == 0:
		m.finish(j, tasks, highest, lost)
	case j.Stop != nil:
		m.enforce(j, tasks)
	}
}

// claim makes a job of which nothing was started yet the one that runs the gang,
// or ends it because another is.
func (m *Manager) claim(j *job) bool {
	dir := spool.Dir(j.Request.Dir)
	err := dir.TakeClaim(spool.Claim{JobID: j.ID, Host: j.Places[0].Node, Acquired: m.now()})
	if errors.Is(err, spool.ErrClaimed) {
		var holder spool.Claim
		if _, readErr := spool.Read(dir.Claim(), &holder); readErr != nil {
			m.log(j, "reading the gang's claim", readErr)
			return false
		}
		// An older claim of the same number is from another state directory.
		if holder.JobID == j.ID && !holder.Acquired.Before(j.Submitted) {
			err = nil
		}
	}
	switch {
	case m.again(j, "taking the gang's claim", err):
	case err == nil:
		return true
	case spool.IsFull(err) && j.Stop != nil: // without a claim nobody has started anything
		m.log(j, "ending a job that never started", m.end(j, j.Stop.Outcome, j.Stop.Reason))
	case errors.Is(err, spool.ErrClaimed): // a duplicate does nothing, and that is no failure
		m.log(j, "ending a duplicate", m.end(j, wlm.OutcomeCompleted, err.Error()))
	default:
		m.log(j, "ending a job that cannot start", m.end(j, wlm.OutcomeFailed, err.Error()))
	}
	return false
}

// start starts a task that has left no trace yet, unless the job is ending.
func (m *Manager) start(j *job, t task) (progress, error) {
	gone, tried := j.attempts[t.number]
	switch {
	case tried && gone:
		return ended, fmt.Errorf("task %d could not be started; job.log in the gang's directory may tell why", t.number)
	case tried: // its starter is at work
		return running, nil
	case j.Stop != nil: // an earlier manager's starter may still be on its way
		return ended, t.bar()
	}
	if j.attempts == nil {
		j.attempts = map[int]bool{}
	}
	err := t.start(j.Request, environment(m.env, j, t.number), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		j.attempts[t.number] = true
		m.poke()
	})
	if err != nil {
		return ended, err
	}
	j.attempts[t.number] = false
	return running, nil
}

// enforce ends a job's tasks: kindly at first, by force when the grace is over.
func (m *Manager) enforce(j *job, tasks []task) {
	if !j.signalled {
		j.signalled = true
		m.log(j, "asking a job's tasks to end", each(tasks, task.terminate))
	}
	if m.now().Sub(j.Stop.Since) >= m.cfg.Grace {
		m.log(j, "killing a job's tasks", each(tasks, task.kill))
	}
}

// finish closes a job of which no task runs any more. agents is their highest
// exit status, which has the last word over the pods'; lost tells that some ended together with the machine.
func (m *Manager) finish(j *job, tasks []task, agents int, lost bool) {
	if j.verdict == nil {
		if j.Boot == m.boot {
			// What a starter that was killed has left behind.
			m.log(j, "killing what is left of a job", each(tasks, task.kill))
		}
		j.verdict = m.judge(j, agents, lost)
	}
	err := spool.Write(spool.Dir(j.Request.Dir).Result(), j.verdict.result)
	if m.again(j, "writing the gang's result", err) {
		return
	}
	m.log(j, "writing the gang's result", err)
	m.log(j, "ending a job", m.end(j, j.verdict.outcome, j.verdict.reason))
	m.poke() // for those who wait for its places
}

// judge says how a job ends.
func (m *Manager) judge(j *job, agents int, lost bool) *verdict {
	result, err := launch.Outcome(spool.Dir(j.Request.Dir), agents, m.now())
	m.log(j, "finding a job's exit code", err)
	v := &verdict{result: result, outcome: wlm.OutcomeCompleted}
	switch {
	case j.Stop != nil:
		v.outcome, v.reason = j.Stop.Outcome, j.Stop.Reason
	case lost:
		v.outcome, v.reason = wlm.OutcomeNodeFailure, "the machine was restarted"
	case result.ExitCode != 0:
		v.outcome, v.reason = wlm.OutcomeFailed, "NonZeroExitCode"
	}
	if j.Stop != nil || lost {
		v.result.Message = v.reason
	}
	if v.outcome == wlm.OutcomeFailed || v.outcome == wlm.OutcomeNodeFailure {
		v.result.ExitCode = cmp.Or(v.result.ExitCode, 1)
	}
	return v
}

// again tells whether something is left to the next step because the spool has no room for
// it: others make some, mostly. A job that is to end waits for none: the removal of its
// gang may be what makes it.
func (m *Manager) again(j *job, doing string, err error) bool {
	if !spool.IsFull(err) || j.Stop != nil {
		j.full = time.Time{}
		return false
	}
	if j.full.IsZero() {
		j.full = m.now()
		m.log(j, doing+"; it is tried again", err)
	}
	return m.now().Sub(j.full) < spool.FullPatience
}

// fail ends a job for an error, if it is one and the job is not ending already.
func (m *Manager) fail(j *job, err error) {
	if err != nil && j.Stop == nil {
		m.log(j, "ending a job that failed", m.stop(j, wlm.OutcomeFailed, err.Error()))
	}
}

// stop begins a job's end. It is kept before it is done.
func (m *Manager) stop(j *job, outcome wlm.Outcome, reason string) error {
	m.cfg.Log.Info("a job is ended", "allocation", j.Request.Name, "job", j.ID, "outcome", outcome, "reason", reason)
	return m.update(j, func(j *job) { j.Stop = &stop{Outcome: outcome, Reason: reason, Since: m.now()} })
}

func (m *Manager) end(j *job, outcome wlm.Outcome, reason string) error {
	return m.update(j, func(j *job) { j.Ended, j.Outcome, j.Reason = m.now(), outcome, reason })
}

// update changes a job in its file first: what cannot be kept did not happen, and
// is tried again at the next step.
func (m *Manager) update(j *job, change func(*job)) error {
	changed := *j
	change(&changed)
	if err := m.store.save(&changed); err != nil {
		return err
	}
	*j = changed
	return nil
}

// forget drops jobs that ended long ago.
func (m *Manager) forget() {
	kept := m.jobs[:0]
	for _, j := range m.jobs {
		old := j.phase() == wlm.PhaseEnded && m.now().Sub(j.Ended) >= m.cfg.Retention
		if old {
			err := m.store.remove(j.ID)
			m.log(j, "removing an ended job", err)
			old = err == nil
		}
		if !old {
			kept = append(kept, j)
		}
	}
	clear(m.jobs[len(kept):])
	m.jobs = kept
}

// log reports an error, if it is one.
func (m *Manager) log(j *job, doing string, err error) {
	if err != nil {
		m.cfg.Log.Error(doing, "allocation", j.Request.Name, "job", j.ID, "error", err)
	}
}
