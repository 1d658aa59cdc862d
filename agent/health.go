package agent

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/handler"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/probe"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/provider/spool"
)

// handler carries out actions in a container as kubectl exec does, and asks what
// listens at the pod's address.
func (p *pod) handler(container string) handler.Handler {
	return handler.Handler{
		Address: p.slot.cfg.Address,
		Exec: func(ctx context.Context, argv []string, output io.Writer) (int, error) {
			return p.slot.Run(ctx, sshd.Command{Container: container, Argv: argv, Stdout: output, Stderr: output})
		},
	}
}

// probe makes one try of a probe. The run's end ends it, and then nobody asks for
// its result.
func (p *pod) probe(a lifecycle.Action) {
	c, ok := p.container(a.Container)
	e, spec := p.current[a.Container], probeOf(c, a.Probe)
	if !ok || e == nil || spec == nil {
		return
	}
	p.slot.background.Go(func() {
		result := p.handler(c.Name).Probe(e.ctx, *spec)
		if e.over() {
			return
		}
		p.slot.post(func() { p.life.Probed(a.Probe, c.Name, a.Run, time.Now(), result) })
	})
}

func probeOf(c spool.ContainerOrders, kind probe.Kind) *corev1.Probe {
	return map[probe.Kind]*corev1.Probe{
		probe.Startup: c.StartupProbe, probe.Liveness: c.LivenessProbe, probe.Readiness: c.ReadinessProbe,
	}[kind]
}

// hook carries out a lifecycle hook, until the run ends or its time is over.
func (p *pod) hook(a lifecycle.Action) {
	c, ok := p.container(a.Container)
	e := p.current[a.Container]
	if !ok || e == nil || c.Lifecycle == nil {
		return
	}
	action := c.Lifecycle.PostStart
	if a.Verb == lifecycle.PreStop {
		action = c.Lifecycle.PreStop
	}
	ctx, cancel := e.ctx, context.CancelFunc(func() {})
	if !a.Until.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, a.Until)
	}
	p.slot.background.Go(func() {
		defer cancel()
		err := p.handler(c.Name).Hook(ctx, *action)
		if e.over() {
			return
		}
		if err != nil {
			p.logger.Warn("a hook failed", "hook", a.Verb, "container", c.Name, "run", a.Run, "error", err)
		}
		p.slot.post(func() { p.life.Hooked(a.Verb, c.Name, a.Run, time.Now(), err) })
	})
}

// over tells that the run's process has ended or is being killed.
func (e *execution) over() bool {
	if e.ctx.Err() != nil {
		return true
	}
	select {
	case <-e.process.Done():
		return true
	default:
		return false
	}
}
