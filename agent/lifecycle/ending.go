package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// minGrace is what a container gets at least to end by itself, as with kubelet.
const minGrace = 2 * time.Second

// ending is how far the end of a run has come that was asked for.
type ending struct {
	by                      time.Time // zero: not asked for
	preStop                 hookState
	terminateSent, killSent bool
}

type hookState int

const (
	hookDue hookState = iota
	hookRuns
	hookOver
)

func (e ending) asked() bool { return !e.by.IsZero() }

// hookBy is when a preStop hook must be over: the process still gets the least
// grace after it, within the whole. (Kubelet lets the hook have all of it and
// adds the least grace; but an allocation's end does not wait.)
func (e ending) hookBy() time.Time { return e.by.Add(-minGrace) }

// stop asks for the end of the current run within the grace period. A later stop
// may only shorten it.
func (c *container) stop(now time.Time, grace time.Duration) {
	by := now.Add(max(grace, minGrace))
	if !c.ending.asked() || by.Before(c.ending.by) {
		c.ending.by = by
	}
}

// mayTerminate tells whether it is a container's turn to end. Where the whole pod
// ends, a sidecar waits for the main containers and for the sidecars after it.
func (p *Pod) mayTerminate(c *container) bool {
	if !p.stopping || c.kind != sidecar {
		return true
	}
	active := slices.DeleteFunc(p.all(), func(c *container) bool { return !c.active() })
	others := slices.ContainsFunc(active, func(c *container) bool { return c.kind != sidecar })
	return !others && c == active[len(active)-1]
}

// end carries on with the end of a run: the hook first, then SIGTERM when it is
// the container's turn, and SIGKILL when the grace is over.
func (s *step) end(c *container, itsTurn bool) {
	e := &c.ending
	if !s.now.Before(e.by) {
		if !e.killSent {
			e.killSent = true
			s.do(Kill, c)
		}
		return
	}
	s.wakeAt(e.by)
	if c.alive() && s.preStop(c) && itsTurn && !e.terminateSent {
		e.terminateSent = true
		s.do(Terminate, c)
	}
}

// preStop has the preStop hook run and tells when that is over. As with kubelet
// the hook does not wait for the container's turn.
func (s *step) preStop(c *container) (over bool) {
	e := &c.ending
	if c.preStop() == nil || e.preStop == hookOver || !s.now.Before(e.hookBy()) {
		return true
	}
	if e.preStop == hookDue {
		e.preStop = hookRuns
		s.add(Action{Verb: PreStop, Until: e.hookBy()}, c)
	}
	s.wakeAt(e.hookBy())
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
