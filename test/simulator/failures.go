package simulator

import (
	"fmt"
	"slices"

	"github.com/gangline/gangline/provider/wlm"
)

// faults are the failures that were asked for by hand.
type faults struct {
	silent bool
	next   map[string]int // by kind, how many of the next calls are meant
}

func (f *faults) take(kind string) bool {
	if f.next[kind] == 0 {
		return false
	}
	f.next[kind]--
	return true
}

// The kinds of failures of calls.
const (
	submitFails = "submit fails"
	listFails   = "list fails"
	cancelFails = "cancel fails"
	unanswered  = "unanswered"
)

// call says how a call of the workload manager ends: nil where it does what it is to do.
func (s *Simulator) call(kind string, probability float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.silent || s.faults.take(kind) || s.chance.happens(kind, probability) {
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

// FailLists has the next n listings fail.
func (s *Simulator) FailLists(n int) { s.inject(listFails, n) }

// LoseAnswers has the next n submissions be taken and answered by an error.
func (s *Simulator) LoseAnswers(n int) { s.inject(unanswered, n) }

func (s *Simulator) inject(kind string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.next == nil {
		s.faults.next = map[string]int{}
	}
	s.faults.next[kind] = n
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

// EndPods ends all containers of a job's pods that run with an exit code, as their programs would.
func (s *Simulator) EndPods(jobID string, exitCode int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[jobID]
	if j == nil || j.allocation == nil {
		return fmt.Errorf("ending the pods of job %s: it has no nodes", jobID)
	}
	j.allocation.post(func(a *allocation) { a.endPods(exitCode) })
	return nil
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
