package supervisor

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"

	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// startAccounting makes a database and starts MariaDB and slurmdbd in the head, both
// as Slurm's own user; the database asks for no other proof.
func (s *supervisor) startAccounting(ctx context.Context) error {
	slurm, err := idsOf("slurm")
	if err != nil {
		return err
	}
	if err := installDatabase(ctx, s.plan, slurm); err != nil {
		return err
	}
	s.database, err = s.startDaemon(s.head.machine, "mariadbd", slurm, "mariadbd", "--no-defaults",
		"--datadir="+s.plan.DatabaseDir(), "--socket="+s.plan.DatabaseSocket(), "--skip-networking",
		// Nothing in it outlives a test.
		"--innodb-flush-log-at-trx-commit=0", "--skip-log-bin", "--innodb-buffer-pool-size=16M")
	if err != nil {
		return err
	}
	err = s.await(ctx, "mariadbd", s.database, func() error {
		conn, err := net.Dial("unix", s.plan.DatabaseSocket())
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return err
	}
	s.accounting, err = s.startDaemonWith(s.head.machine, []string{"MYSQL_UNIX_PORT=" + s.plan.DatabaseSocket()},
		"slurmdbd", slurm, "slurmdbd", "-D")
	if err != nil {
		return err
	}
	return s.await(ctx, "slurmdbd", s.accounting, func() error {
		_, err := slurmCommand(ctx, s.plan, "timeout", "5", "sacctmgr", "--noheader", "--immediate", "show", "cluster")
		return err
	})
}

// installDatabase makes an empty database that lets in Slurm's user by its uid.
func installDatabase(ctx context.Context, p plan.Plan, owner ids) error {
	path, err := FindProgram("mariadb-install-db")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "--no-defaults", "--datadir="+p.DatabaseDir(), "--skip-test-db",
		"--auth-root-authentication-method=socket", "--auth-root-socket-user=slurm")
	cmd.Env = []string{"PATH=" + SystemPath}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(owner.uid), Gid: uint32(owner.gid)}}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make an empty database: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
