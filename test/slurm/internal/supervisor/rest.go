package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// restUser runs slurmrestd: nobody who has a job, and not root, as which it refuses
// to run.
const restUser = "nobody"

// restVersions are the versions of its API that slurmrestd of Slurm 22.05 is to speak.
const restVersions = "openapi/v0.0.38,openapi/v0.0.37"

// startREST starts slurmrestd in the head, on a unix socket and on a port, and waits
// until it listens. Callers prove who they are with a token.
func (s *supervisor) startREST(ctx context.Context) error {
	if running(s.rest) {
		return nil
	}
	if !s.plan.REST {
		return errors.New("this cluster has no slurmrestd; start it with REST")
	}
	if err := os.Remove(s.plan.RESTSocket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier slurmrestd: %w", err)
	}
	nobody, err := idsOf(restUser)
	if err != nil {
		return err
	}
	// SLURM_JWT=daemon: its own token does not matter, it uses its callers'.
	s.rest, err = s.startDaemonWith(s.head.machine, []string{"SLURM_JWT=daemon"}, "slurmrestd", nobody, "slurmrestd",
		"-a", "rest_auth/jwt", "-s", restVersions, "-v",
		"unix:"+s.plan.RESTSocket(), fmt.Sprintf("%s:%d", s.plan.HeadAddr(), plan.RESTPort))
	if err != nil {
		return err
	}
	return s.await(ctx, "slurmrestd", s.rest, func() error {
		conn, err := net.Dial("unix", s.plan.RESTSocket())
		if err != nil {
			return err
		}
		return errors.Join(conn.Close(), os.Chmod(s.plan.RESTSocket(), 0o777))
	})
}

func (s *supervisor) stopREST() error {
	if !running(s.rest) {
		return nil
	}
	return s.endDaemon(s.rest, unix.SIGTERM)
}
