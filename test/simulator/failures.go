package simulator

import (
	"fmt"
	"slices"

	"github.com/gangline/gangline/provider/wlm"
)

// faults are the failures that were asked for by hand.
type faults struct {
	silent               bool
	submit, list, cancel countdown
	unanswered           countdown
}

// countdown is how many of the next calls are meant.
type countdown int

func (c *countdown) take() bool {
	if *c == 0 {
		return false
	}
	*c--
	return true
}

// call says how a call of the workload manager ends: nil where it does what it is to do.
func (s *Simulator) call(injected *countdown, probability float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := map[*countdown]string{&s.faults.submit: "submit fails", &s.faults.list: "list fails", &s.faults.cancel: "cancel fails"}[injected]
	if s.faults.silent || injected.take() || s.chance.happens(kind, probability) {
		return errSilent
	}
	return nil
}

// Silence has all calls fail until it is lifted. What runs goes on.
func (s *Simulator) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.silent = silent
}

// FailSubmissions has the next n submissions fail and leave no job; FailLists and
// FailCancels do the same to those calls.
func (s *Simulator) FailSubmissions(n int) { s.inject(&s.faults.submit, n) }

// FailLists has the next n listings fail.
func (s *Simulator) FailLists(n int) { s.inject(&s.faults.list, n) }

// FailCancels has the next n cancellations fail.
func (s *Simulator) FailCancels(n int) { s.inject(&s.faults.cancel, n) }

// LoseAnswers has the next n submissions be taken and answered by an error.
func (s *Simulator) LoseAnswers(n int) { s.inject(&s.faults.unanswered, n) }

func (s *Simulator) inject(c *countdown, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*c = countdown(n)
}

// FailNode takes an HPC node down. Its jobs end as NODE_FAIL, their agents without a word.
func (s *Simulator) FailNode(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(name)
	if n == nil {
		return fmt.Errorf("failing node %s: there is none of that name", name)
	}
	n.down = true
	for _, j := range s.jobs {
		if j.allocation != nil && j.job.Phase != wlm.PhaseEnded && slices.Contains(j.places, n) {
			s.harm(j, HarmNode)
		}
	}
	return nil
}

// RestoreNode takes it up again.
func (s *Simulator) RestoreNode(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(name)
	if n == nil {
		return fmt.Errorf("restoring node %s: there is none of that name", name)
	}
	n.down = false
	s.place()
	return nil
}

func (s *Simulator) node(name string) *node {
	i := slices.IndexFunc(s.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return s.nodes[i]
}

// KillAgents kills the agents of a job at once. The launcher sees that and ends the job.
func (s *Simulator) KillAgents(jobID string) error {
	return s.withJob(jobID, func(j *job) { s.harm(j, HarmAgents) })
}

// EndPods ends all containers of a job's pods that run with an exit code, as their programs would.
func (s *Simulator) EndPods(jobID string, exitCode int32) error {
	return s.withJob(jobID, func(j *job) { j.allocation.post(func(a *allocation) { a.endPods(exitCode) }) })
}

// Forget has the workload manager know nothing of a job any more, which goes on.
func (s *Simulator) Forget(jobID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[jobID]
	if j == nil {
		return fmt.Errorf("forgetting job %s: there is none", jobID)
	}
	s.harm(j, HarmForgotten)
	return nil
}

// withJob does something to a job that has nodes, under the lock.
func (s *Simulator) withJob(jobID string, do func(*job)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[jobID]
	if j == nil || j.allocation == nil {
		return fmt.Errorf("job %s has no nodes", jobID)
	}
	do(j)
	return nil
}
