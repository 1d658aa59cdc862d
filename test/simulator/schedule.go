package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// place gives nodes to the jobs at the head of the queue, in its order, as long as there
// are any. The caller holds the lock.
func (s *Simulator) place() {
	for len(s.queue) > 0 {
		j := s.queue[0]
		places, ok := s.find(j.needs)
		if !ok {
			j.job.Reason = "Resources"
			return
		}
		s.queue = s.queue[1:]
		j.places = places
		for i, n := range places {
			n.free = n.free.Less(j.needs[i])
		}
		j.job.State, j.job.Reason, j.job.Phase = "CONFIGURING", "None", wlm.PhaseStarting
		j.job.Nodes, j.job.Started = nodeList(places), time.Now()
		if limit := j.request.TimeLimit; limit > 0 {
			j.job.LimitEnd = j.job.Started.Add(limit)
		}
		j.allocation = newAllocation(s, j)
		s.running.Go(func() { j.allocation.run(s.life) })
	}
}

// find finds a node for each task. It goes on where the last search has ended, so that
// many jobs on many nodes are no square.
func (s *Simulator) find(needs []translate.Resources) ([]*node, bool) {
	taken := map[*node]translate.Resources{}
	places := make([]*node, 0, len(needs))
	at := s.nextAt
	for _, need := range needs {
		for passed := 0; ; at, passed = at+1, passed+1 {
			if passed > len(s.nodes) {
				return nil, false
			}
			n := s.nodes[at%len(s.nodes)]
			if !n.down && fits(n.free.Less(taken[n]), need) {
				taken[n] = taken[n].Plus(need)
				places = append(places, n)
				break
			}
		}
	}
	s.nextAt = at % len(s.nodes)
	return places, true
}

func fits(have, need translate.Resources) bool {
	return have.CPUs >= need.CPUs && have.MemoryMiB >= need.MemoryMiB && have.GPUs >= need.GPUs
}

// finish ends a job that had nodes. It does nothing to one that has ended.
func (s *Simulator) finish(j *job, outcome wlm.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.job.Phase == wlm.PhaseEnded {
		return
	}
	for i, n := range j.places {
		n.free = n.free.Plus(j.needs[i])
	}
	j.ended(outcome)
	s.place()
}

// runs notes that a job's launcher runs.
func (s *Simulator) runs(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.job.Phase == wlm.PhaseStarting {
		j.job.State, j.job.Phase = "RUNNING", wlm.PhaseRunning
	}
}

func (j *job) ended(outcome wlm.Outcome) {
	j.job.State, j.job.Phase, j.job.Outcome, j.job.Ended = stateOf(outcome), wlm.PhaseEnded, outcome, time.Now()
}

// stateOf is Slurm's word for how a job has ended.
func stateOf(outcome wlm.Outcome) string {
	if outcome == wlm.OutcomeNodeFailure {
		return "NODE_FAIL"
	}
	return strings.ToUpper(string(outcome))
}

// nodeList is the short form of nodes' names: "sim[1-3,7]".
func nodeList(places []*node) string {
	var numbers []int
	for _, n := range places {
		numbers = append(numbers, n.number)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := fmt.Sprint(numbers[i])
		if last > i {
			part += fmt.Sprintf("-%d", numbers[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	if len(numbers) == 1 {
		return "sim" + parts[0]
	}
	return "sim[" + strings.Join(parts, ",") + "]"
}
