package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// RESTSocket is the path of slurmrestd's unix socket, which every user outside of the
// nodes can reach.
func (c *Cluster) RESTSocket() string { return c.plan.RESTSocket() }

// RESTAddr is the host and port at which slurmrestd listens.
func (c *Cluster) RESTAddr() string { return fmt.Sprintf("%s:%d", c.plan.HeadAddr(), plan.RESTPort) }

// Token makes a token with which slurmrestd takes the ordinary user for himself, for a
// time in whole seconds.
func (c *Cluster) Token(ctx context.Context, lifespan time.Duration) (string, error) {
	if !c.plan.REST {
		return "", errors.New("this cluster has no slurmrestd; start it with REST")
	}
	out, err := c.runWithInput(ctx, "", "scontrol", "token", "lifespan="+strconv.Itoa(int(lifespan/time.Second)))
	if err != nil {
		return "", err
	}
	token, found := strings.CutPrefix(out, "SLURM_JWT=")
	if !found {
		return "", fmt.Errorf("scontrol token printed %q", out)
	}
	return token, nil
}
