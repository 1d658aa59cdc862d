package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/translate/wellknown"
)

// taken tells in an Event of the pod that a port which one of its containers wants is
// another process's on this node.
func (c controlled) taken(ctx context.Context, t control.Taken) (int, error) {
	message := fmt.Sprintf(
		"%s cannot listen on %s: another process on HPC node %s has that port. It listens on %s instead. "+
			"Within the gang ssh finds it there; launchers elsewhere reach the other process. Give each pod an HPC node of its own, or another port.",
		t.Program, t.Address, c.cfg.Node, t.Instead)
	told, err := ask(ctx, c.slot, func() bool {
		if c.pod == nil {
			return false
		}
		for _, o := range c.pod.containers() {
			if lifecycle.RunID(c.pod.orders.UID, o.Name, c.pod.runs[o.Name]) == t.Run {
				c.pod.life.Tell(o.Name, time.Now(), corev1.EventTypeWarning, wellknown.ReasonPortTaken, message)
				return true
			}
		}
		return false
	})
	if err == nil && !told {
		err = fmt.Errorf("no container of slot %d has the run %q now", c.index, t.Run)
	}
	return 0, err
}
