package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// AddEphemeral takes up a container that came while the pod runs. It is started
// once, however far the others are, and never again; the pod does not wait for its
// end. One whose name is taken is not taken up.
func (p *Pod) AddEphemeral(o spool.ContainerOrders) {
	if _, taken := p.byName[o.Name]; taken {
		return
	}
	o.RestartPolicy = nil
	c := newContainer(p.uid, o, false, corev1.RestartPolicyNever)
	c.kind = ephemeralContainer
	p.ephemerals = append(p.ephemerals, c)
	p.byName[c.name] = c
}

// startEphemerals starts those that never were.
func (p *Pod) startEphemerals(s *step) {
	for _, c := range p.ephemerals {
		if c.phase == idle {
			p.start(s, c)
		}
	}
}

// stopEphemerals ends those of a pod that has come to its end by itself: they get
// no grace beyond the least, because shells on a terminal do not heed a SIGTERM and an
// allocation would be held for nothing. (Kubelet gives them the pod's.)
func (p *Pod) stopEphemerals(now time.Time) {
	for _, c := range p.ephemerals {
		if c.active() {
			c.stop(now, 0)
		}
	}
}

// ordinary leaves the ephemeral containers out.
func ordinary(list []*container) []*container {
	return slices.DeleteFunc(list, func(c *container) bool { return c.kind == ephemeralContainer })
}
