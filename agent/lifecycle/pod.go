package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/gangline/gangline/agent/probe"
	"github.com/gangline/gangline/provider/spool"
)

// Verb is what is to be done with a container.
type Verb string

const (
	// Start asks for a new run.
	Start Verb = "start"
	// Terminate asks the container to end by itself (its stop signal).
	Terminate Verb = "terminate"
	// Kill ends it (SIGKILL), even while it is being started.
	Kill Verb = "kill"
	// Probe asks for one try of a probe; see Pod.Probed.
	Probe Verb = "probe"
	// PostStart and PreStop ask for a hook; see Pod.Hooked.
	PostStart Verb = "postStart"
	PreStop   Verb = "preStop"
)

// Action is one thing to do.
type Action struct {
	Verb      Verb
	Container string
	Run       int // of the container, counted from 0
	// Probe is the probe to try.
	Probe probe.Kind
	// Until is when a hook has to be over; zero for no bound.
	Until time.Time
}

// Exit is how a run ended. Reason is empty for an ordinary end.
type Exit struct {
	Code            int
	Reason, Message string
}

// Pod is the state of one pod. It is not safe for concurrent use.
type Pod struct {
	uid, name  string // name is for messages
	grace      time.Duration
	inits      []*container // init containers and sidecars, in order
	mains      []*container
	ephemerals []*container
	byName     map[string]*container

	started    time.Time // when the first container was
	stopping   bool
	restarting bool          // all containers are being ended, to start again
	events     []spool.Event // the newest
}

// NewPod returns the state of a pod of which nothing has been started.
func NewPod(o spool.PodOrders) *Pod {
	p := &Pod{
		uid:    o.UID,
		name:   fmt.Sprintf("%s_%s(%s)", o.Name, o.Namespace, o.UID),
		grace:  time.Duration(o.GraceSeconds) * time.Second,
		byName: map[string]*container{},
	}
	for _, c := range o.InitContainers {
		p.inits = append(p.inits, newContainer(o.UID, c, true, o.RestartPolicy))
	}
	for _, c := range o.Containers {
		p.mains = append(p.mains, newContainer(o.UID, c, false, o.RestartPolicy))
	}
	for _, c := range p.all() {
		p.byName[c.name] = c
	}
	return p
}

func (p *Pod) all() []*container { return slices.Concat(p.inits, p.mains, p.ephemerals) }

// Stop asks for the pod's end within the grace period. A later stop may only
// shorten it.
func (p *Pod) Stop(now time.Time, grace time.Duration) {
	p.stopping, p.restarting = true, false
	for _, c := range p.all() {
		if c.active() {
			c.stop(now, grace)
		} else if c.terminated != nil {
			c.phase = ended // it will not start again
		}
	}
}

// Started notes that a container's process runs.
func (p *Pod) Started(container string, at time.Time) {
	c, ok := p.byName[container]
	if !ok || c.phase != starting {
		return
	}
	c.startedAt = at
	c.phase = running
	if c.postStart() != nil {
		c.phase = hooked
	}
	c.probes = newProbes(c.orders, at)
	if p.started.IsZero() {
		p.started = at
	}
}

// Begun tells that all ordinary containers have been started once: nothing that comes
// before them is still to be done, and what surrounds them is complete.
func (p *Pod) Begun() bool {
	return !slices.ContainsFunc(p.mains, func(c *container) bool { return c.startedAt.IsZero() })
}

// Exited notes that nothing of a container's run is left, or that it could not
// be started.
func (p *Pod) Exited(container string, at time.Time, e Exit) {
	if c, ok := p.byName[container]; ok && c.active() {
		c.end(at, e)
	}
}

// Finished tells that nothing runs and nothing will be started.
func (p *Pod) Finished() bool {
	return p.stopping && !slices.ContainsFunc(p.all(), (*container).active)
}

// Step returns what is to be done now, and when to ask again though nothing has
// happened (zero: never). What it returns counts as done.
func (p *Pod) Step(now time.Time) ([]Action, time.Time) {
	s := step{now: now}
	if !p.stopping && !p.restartAll(&s) && p.advance(&s) {
		p.Stop(now, p.grace)
		p.stopEphemerals(now)
	}
	p.care(&s)
	for _, c := range p.all() {
		if p.stopping {
			c.waitsForBackOff, c.waitsForImage = false, false
		}
		if c.active() && c.ending.wasAsked() {
			s.end(c, p.mayTerminate(c))
		}
	}
	return s.actions, s.wake
}

// advance starts what is to be started. It returns true when the pod has come
// to its end.
func (p *Pod) advance(s *step) (over bool) {
	for _, c := range p.all() {
		c.waitsForBackOff, c.waitsForImage = false, false
	}
	p.startEphemerals(s)
	initialized := slices.ContainsFunc(p.mains, func(c *container) bool { return c.phase != idle })
	for _, c := range p.inits {
		if !c.active() && (c.kind == sidecar || !initialized && !c.succeeded()) {
			if c.phase == ended && !c.restarts() {
				return true // a failed init container that is not tried again
			}
			p.start(s, c)
		}
		if !initialized && !c.letsNextStart() {
			return false
		}
	}
	over = true
	for _, c := range p.mains {
		if !c.active() && (c.phase == idle || c.restarts()) {
			p.start(s, c)
			over = false
		}
		over = over && !c.active()
		if c.holdsNext() {
			return false
		}
	}
	return over
}

// step gathers what one Step finds.
type step struct {
	now     time.Time
	actions []Action
	wake    time.Time
}

func (p *Pod) start(s *step, c *container) {
	if p.holdBack(s, c) {
		return
	}
	if due := c.due(s.now); due.After(s.now) {
		c.waitsForBackOff = true
		s.wakeAt(due)
		return
	}
	c.start(s.now)
	s.do(Start, c)
}

func (s *step) do(v Verb, c *container) { s.add(Action{Verb: v}, c) }

func (s *step) add(a Action, c *container) {
	a.Container, a.Run = c.name, c.run
	s.actions = append(s.actions, a)
}

func (s *step) wakeAt(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}
