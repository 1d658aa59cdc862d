package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/agent/mpirun"
)

// containerVariable holds the id of the container's run.
const containerVariable = "GANGLINE_CONTAINER"

// tellTimeout bounds a call to the pod's agent, which is on the same node.
const tellTimeout = 10 * time.Second

// tellAgent has the pod's agent tell in an Event that the port is another's: who
// looks for a launcher's fault looks there, and not into this program's log.
func tellAgent(ctx context.Context, l listener, env func(string) string, logger *slog.Logger) {
	settings, inPod, err := mpirun.ReadSettings(env)
	if err == nil && !inPod {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	if err == nil {
		_, err = control.Do(ctx, settings.Socket, control.Call{Request: control.Request{Taken: &control.Taken{
			Run: env(containerVariable), Program: Name, Address: l.taken, Instead: l.Addr().String(),
		}}})
	}
	if err != nil {
		logger.Warn("telling the pod's agent", "error", fmt.Errorf("the port %s is another's: %w", l.taken, err))
	}
}
