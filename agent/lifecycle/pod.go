package lifecycle

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// minGrace is what a container gets at least to end by itself, as with kubelet.
const minGrace = 2 * time.Second

// Verb is what is to be done with a container.
type Verb string

const (
	// Start asks for a new run.
	Start Verb = "start"
	// Terminate asks the container to end by itself (SIGTERM).
	Terminate Verb = "terminate"
	// Kill ends it (SIGKILL), even while it is being started.
	Kill Verb = "kill"
)

// Action is one thing to do.
type Action struct {
	Verb      Verb
	Container string
	Run       int // of the container, counted from 0
}

// Exit is how a run ended. Reason is empty for an ordinary end.
type Exit struct {
	Code            int
	Reason, Message string
}

// Pod is the state of one pod. It is not safe for concurrent use.
type Pod struct {
	uid, name string // name is for messages
	grace     time.Duration
	inits     []*container // init containers and sidecars, in order
	mains     []*container
	byName    map[string]*container

	started  time.Time // when the first container was
	stopping bool
	deadline time.Time // of the stop
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

func (p *Pod) all() []*container { return slices.Concat(p.inits, p.mains) }

// Stop asks for the pod's end within the grace period. A later stop may only
// shorten it.
func (p *Pod) Stop(now time.Time, grace time.Duration) {
	deadline := now.Add(max(grace, minGrace))
	if p.stopping && !deadline.Before(p.deadline) {
		return
	}
	p.stopping, p.deadline = true, deadline
}

// Started notes that a container runs.
func (p *Pod) Started(container string, at time.Time) {
	c, ok := p.byName[container]
	if !ok || c.phase != starting {
		return
	}
	c.phase, c.startedAt = running, at
	if p.started.IsZero() {
		p.started = at
	}
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
	if !p.stopping && p.advance(&s) {
		p.Stop(now, p.grace)
	}
	if p.stopping {
		p.shutDown(&s)
	}
	return s.actions, s.wake
}

// advance starts what is to be started. It returns true when the pod has come
// to its end.
func (p *Pod) advance(s *step) (over bool) {
	for _, c := range p.all() {
		c.waitsForBackOff = false
	}
	initialized := slices.ContainsFunc(p.mains, func(c *container) bool { return c.phase != idle })
	for _, c := range p.inits {
		if !c.active() && (c.kind == sidecar || !initialized && !c.succeeded()) {
			if c.phase == ended && !c.restarts() {
				return true // a failed init container that is not tried again
			}
			s.start(c)
		}
		if !initialized && !c.letsNextStart() {
			return false
		}
	}
	over = true
	for _, c := range p.mains {
		if !c.active() && (c.phase == idle || c.restarts()) {
			s.start(c)
			over = false
		}
		over = over && !c.active()
	}
	return over
}

// shutDown ends the main containers and then the sidecars, the last first; when
// the grace is over, all at once.
func (p *Pod) shutDown(s *step) {
	for _, c := range p.all() {
		c.waitsForBackOff = false
	}
	active := slices.DeleteFunc(p.all(), func(c *container) bool { return !c.active() })
	if len(active) == 0 {
		return
	}
	if !s.now.Before(p.deadline) {
		for _, c := range active {
			s.kill(c)
		}
		return
	}
	s.wakeAt(p.deadline)
	isSidecar := func(c *container) bool { return c.kind == sidecar }
	if others := slices.DeleteFunc(slices.Clone(active), isSidecar); len(others) > 0 {
		for _, c := range others {
			s.terminate(c)
		}
		return
	}
	s.terminate(active[len(active)-1])
}

// Status is the pod's in the spool's terms. Done is left to the caller, who may
// have to clean up first.
func (p *Pod) Status() spool.PodStatus {
	waiting := reasonCreating
	if len(p.inits) > 0 {
		waiting = reasonInitializing
	}
	return spool.PodStatus{
		UID:            p.uid,
		Started:        p.started,
		InitContainers: p.statuses(p.inits, waiting),
		Containers:     p.statuses(p.mains, waiting),
	}
}

func (p *Pod) statuses(of []*container, waiting string) []corev1.ContainerStatus {
	list := make([]corev1.ContainerStatus, len(of))
	for i, c := range of {
		list[i] = c.status(waiting, p.name)
	}
	return list
}

// step gathers what one Step finds.
type step struct {
	now     time.Time
	actions []Action
	wake    time.Time
}

func (s *step) start(c *container) {
	if due := c.due(s.now); due.After(s.now) {
		c.waitsForBackOff = true
		s.wakeAt(due)
		return
	}
	c.start(s.now)
	s.do(Start, c)
}

func (s *step) terminate(c *container) {
	if c.phase == running && !c.terminateSent {
		c.terminateSent = true
		s.do(Terminate, c)
	}
}

func (s *step) kill(c *container) {
	if !c.killSent {
		c.killSent = true
		s.do(Kill, c)
	}
}

func (s *step) do(v Verb, c *container) {
	s.actions = append(s.actions, Action{Verb: v, Container: c.name, Run: c.run})
}

func (s *step) wakeAt(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}
