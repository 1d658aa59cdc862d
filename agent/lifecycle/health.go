package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/probe"
	"github.com/gangline/gangline/provider/spool"
)

// newProbes are those of a run that started at a time.
func newProbes(o spool.ContainerOrders, started time.Time) []*probe.Probe {
	var probes []*probe.Probe
	for _, p := range []struct {
		kind probe.Kind
		spec *corev1.Probe
	}{
		{probe.Startup, o.StartupProbe},
		{probe.Liveness, o.LivenessProbe},
		{probe.Readiness, o.ReadinessProbe},
	} {
		if p.spec != nil {
			probes = append(probes, probe.New(p.kind, *p.spec, started))
		}
	}
	return probes
}

func (c *container) probe(kind probe.Kind) *probe.Probe {
	i := slices.IndexFunc(c.probes, func(p *probe.Probe) bool { return p.Kind() == kind })
	if i < 0 {
		return nil
	}
	return c.probes[i]
}

// passes tells whether a probe has succeeded, or there is none.
func (c *container) passes(kind probe.Kind) bool {
	p := c.probe(kind)
	return p == nil || p.Succeeded()
}

// up tells that the container runs and has started as far as its hook and its
// startup probe are concerned.
func (c *container) up() bool { return c.phase == running && c.passes(probe.Startup) }

// ready tells whether the container may be sent work; an init container, whether
// it has done its own.
func (c *container) ready() bool {
	if c.kind == initContainer {
		return c.succeeded()
	}
	return c.up() && c.passes(probe.Readiness)
}

// holdsNext tells that the containers after it have to wait for its postStart
// hook. Kubelet starts one after the other, and programs rely on it.
func (c *container) holdsNext() bool {
	return c.postStart() != nil && (c.phase == starting || c.phase == hooked)
}

// care has the postStart hooks run and the probes tried that are due.
func (p *Pod) care(s *step) {
	for _, c := range p.all() {
		if c.phase == hooked && c.hook == hookDue && !c.ending.wasAsked() {
			c.hook = hookRuns
			s.do(PostStart, c)
		}
		for _, tried := range c.probes {
			if p.tries(c, tried.Kind()) {
				s.try(c, tried)
			}
		}
	}
}

// tries tells whether a container's probe is to be tried: a startup probe first,
// then the others, and in a pod that ends only readiness.
func (p *Pod) tries(c *container, kind probe.Kind) bool {
	if c.phase != running || p.stopping && kind != probe.Readiness {
		return false
	}
	return kind == probe.Startup || c.up()
}

func (s *step) try(c *container, p *probe.Probe) {
	due, more := p.Due()
	switch {
	case !more:
	case due.After(s.now):
		s.wakeAt(due)
	default:
		p.Begin(s.now)
		s.add(Action{Verb: Probe, Probe: p.Kind()}, c)
	}
}

// Hooked notes that a postStart or preStop hook has returned. The Events do not
// say with what error, which may hold secrets of the request, as with kubelet.
func (p *Pod) Hooked(hook Verb, container string, run int, at time.Time, err error) {
	c, ok := p.byName[container]
	if !ok || !c.alive() || c.run != run {
		return
	}
	switch {
	case hook == PreStop:
		c.ending.preStop = hookOver
		if err != nil {
			p.tell(c, at, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		}
	case c.phase != hooked:
	case err == nil:
		c.phase = running
	default:
		p.tell(c, at, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		p.tell(c, at, corev1.EventTypeNormal, "Killing", "FailedPostStartHook")
		c.stop(at, p.grace)
	}
}

// unwell are the Events of what is not a plain success.
var unwell = map[probe.Outcome]struct{ reason, format string }{
	probe.Warning: {"ProbeWarning", "%s probe warning: %s"},
	probe.Failure: {"Unhealthy", "%s probe failed: %s"},
	probe.Unknown: {"Unhealthy", "%s probe errored and resulted in unknown state: %s"},
}

// Probed notes how a try came out. A result that comes too late is ignored.
func (p *Pod) Probed(kind probe.Kind, container string, run int, at time.Time, r probe.Result) {
	c, ok := p.byName[container]
	if !ok || c.run != run || !p.tries(c, kind) {
		return
	}
	tried := c.probe(kind)
	if tried == nil {
		return
	}
	changed := tried.End(r.Outcome, r.Message)
	if e, tell := unwell[r.Outcome]; tell && changed {
		p.tell(c, at, corev1.EventTypeWarning, e.reason, fmt.Sprintf(e.format, kind, r.Message))
	}
	if kind != probe.Readiness && tried.Failed() && !c.ending.wasAsked() {
		p.condemn(c, kind, at)
	}
}

// condemn ends a run that failed a probe. Whether the container starts again is
// its restart policy's to say.
func (p *Pod) condemn(c *container, kind probe.Kind, at time.Time) {
	what, grace := "Container", p.grace
	if c.kind == sidecar {
		what = "Init container"
	}
	text := fmt.Sprintf("%s %s failed %s probe", what, c.name, strings.ToLower(string(kind)))
	if c.kind != sidecar && c.policy != corev1.RestartPolicyNever {
		text += ", will be restarted"
	}
	p.tell(c, at, corev1.EventTypeNormal, "Killing", text)
	spec := c.orders.LivenessProbe
	if kind == probe.Startup {
		spec = c.orders.StartupProbe
	}
	if own := spec.TerminationGracePeriodSeconds; own != nil {
		grace = time.Duration(*own) * time.Second
	}
	c.condemned = true
	c.stop(at, grace)
}
