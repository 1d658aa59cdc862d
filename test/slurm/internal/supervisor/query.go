package supervisor

import (
	"context"
	"strings"

	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// NodeStates asks Slurm for the state of every node, as sinfo's long form has it
// ("idle", "allocated", "down*").
func NodeStates(ctx context.Context, p plan.Plan) (map[string]string, error) {
	out, err := slurmCommand(ctx, p, "sinfo", "-h", "-N", "-p", "batch", "-o", "%N %T")
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for line := range strings.Lines(out) {
		if name, state, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			states[name] = state
		}
	}
	return states, nil
}
