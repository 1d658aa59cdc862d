package simulator

import (
	"maps"
	"slices"
	"time"
)

// Account is what has become of one allocation: what a judge of the virtual node holds its
// pods' states against.
type Account struct {
	// Submitted is when each job of the name was taken; more than one is a job too many.
	Submitted []time.Time
	// Unanswered is how many of them were answered by an error.
	Unanswered int
	// Harms are what was done to it; nil if its pods were left alone.
	Harms []Harm
	// Ends are the exit codes of the pods that ended as their programs would, by UID.
	Ends map[string]int32
}

// Harm is what may keep a pod from its own end.
type Harm string

// The harms that may be done to a job.
const (
	HarmNode      Harm = "its HPC node failed"
	HarmAgents    Harm = "its agents were killed"
	HarmPreempted Harm = "it was preempted"
	HarmForgotten Harm = "the workload manager forgot it"
)

// Accounts are those of all allocations so far, by name.
func (s *Simulator) Accounts() map[string]Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Account, len(s.accounts))
	for name, a := range s.accounts {
		all[name] = Account{
			Submitted: slices.Clone(a.Submitted), Unanswered: a.Unanswered, Harms: slices.Clone(a.Harms), Ends: maps.Clone(a.Ends),
		}
	}
	return all
}

// account is that of an allocation. The caller holds the lock.
func (s *Simulator) account(name string) *Account {
	if s.accounts[name] == nil {
		s.accounts[name] = &Account{Ends: map[string]int32{}}
	}
	return s.accounts[name]
}

// harmed notes what was done to a job. The caller holds the lock.
func (s *Simulator) harmed(j *job, h Harm) {
	a := s.account(j.request.Name)
	a.Harms = append(a.Harms, h)
}

// ended notes a pod's own end.
func (s *Simulator) ended(allocation, uid string, code int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account(allocation).Ends[uid] = code
}

// fate is what the seed has in store for a job; the zero fate is none.
type fate struct {
	harm  Harm
	after time.Duration // from its place on nodes on
}

// draw draws the fate of the next job.
func (f Failures) draw(c *chance) (drawn fate) {
	for _, h := range []struct {
		harm        Harm
		probability float64
	}{{HarmNode, f.Node}, {HarmAgents, f.Agents}, {HarmPreempted, f.Preempt}, {HarmForgotten, f.Forget}} {
		// All are drawn for each job, so that one more kind changes none of the others.
		if c.happens(string(h.harm), h.probability) && drawn.harm == "" {
			drawn = fate{harm: h.harm, after: time.Duration(c.draw("when") * float64(f.Within))}
		}
	}
	return drawn
}

// suffer has done to a job what its fate is.
func (s *Simulator) suffer(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.harm(j, j.fate.harm)
}

// harm does something to a job that has nodes. The caller holds the lock.
func (s *Simulator) harm(j *job, h Harm) {
	s.harmed(j, h)
	if h == HarmForgotten {
		j.forgotten = true
		return
	}
	j.allocation.post(harms[h])
}
