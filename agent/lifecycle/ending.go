package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MinGrace is what a container gets at least between SIGTERM and SIGKILL, as with
// kubelet, even where its grace period is over.
const MinGrace = 2 * time.Second

// ending is how far the end of a run has come that was asked for.
type ending struct {
	asked time.Time // zero: not asked for
	// by is the end of the grace period: of the preStop hook, of the wait for the
	// container's turn, and of what SIGTERM leaves it, which is MinGrace at least.
	by         time.Time
	preStop    hookState
	terminated time.Time // when SIGTERM was sent; zero before
	killSent   bool
}

type hookState int

const (
	hookDue hookState = iota
	hookRuns
	hookOver
)

func (e ending) wasAsked() bool { return !e.asked.IsZero() }

// killAt is when the run is killed unless it has ended: one that could not be
// asked to end yet counts from when it should have been.
func (e ending) killAt() time.Time {
	since := e.terminated
	if since.IsZero() {
		since = e.asked
	}
	if least := since.Add(MinGrace); least.After(e.by) {
		return least
	}
	return e.by
}

// stop asks for the end of the current run within the grace period. A later stop
// may only shorten it.
func (c *container) stop(now time.Time, grace time.Duration) {
	by := now.Add(grace)
	if !c.ending.wasAsked() {
		c.ending.asked, c.ending.by = now, by
	}
	if by.Before(c.ending.by) {
		c.ending.by = by
	}
}

// mayTerminate tells whether it is a container's turn to end. Where the whole pod
// ends, a sidecar waits for the main containers and for the sidecars after it.
func (p *Pod) mayTerminate(c *container) bool {
	if !p.stopping || c.kind != sidecar {
		return true
	}
	active := slices.DeleteFunc(ordinary(p.all()), func(c *container) bool { return !c.active() })
	others := slices.ContainsFunc(active, func(c *container) bool { return c.kind != sidecar })
	return !others && c == active[len(active)-1]
}

// end carries on with the end of a run, as kubelet does (killContainer): the
// preStop hook, then SIGTERM when it is the container's turn, all that within the
// grace period, then SIGKILL.
func (s *step) end(c *container, itsTurn bool) {
	e := &c.ending
	if c.pull.underway && !e.killSent {
		e.killSent = true
		s.do(Kill, c) // there is nothing yet that could end by itself
		return
	}
	over := !s.now.Before(e.by)
	if c.alive() && e.terminated.IsZero() {
		if !s.preStop(c) || !itsTurn && !over {
			s.wakeAt(e.by)
			return
		}
		e.terminated = s.now
		s.do(Terminate, c)
	}
	if s.now.Before(e.killAt()) {
		s.wakeAt(e.killAt())
		return
	}
	if !e.killSent {
		e.killSent = true
		s.do(Kill, c)
	}
}

// preStop has the preStop hook run and tells when that is over. As with kubelet
// the hook does not wait for the container's turn, and without any grace there is
// none.
func (s *step) preStop(c *container) (over bool) {
	e := &c.ending
	if c.preStop() == nil || e.preStop == hookOver || !s.now.Before(e.by) {
		return true
	}
	if e.preStop == hookDue {
		e.preStop = hookRuns
		s.add(Action{Verb: PreStop, Until: e.by}, c)
	}
	return false
}

func (c *container) postStart() *corev1.LifecycleHandler {
	if c.orders.Lifecycle == nil {
		return nil
	}
	return c.orders.Lifecycle.PostStart
}

func (c *container) preStop() *corev1.LifecycleHandler {
	if c.orders.Lifecycle == nil {
		return nil
	}
	return c.orders.Lifecycle.PreStop
}
