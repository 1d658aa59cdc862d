package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gangline/gangline/test/slurm/internal/machine"
	"github.com/gangline/gangline/test/slurm/internal/supervisor"
)

// ExecOptions says how Exec runs a command. The zero value is root, in /, with no input and
// no output.
type ExecOptions struct {
	// User runs the command as that user; the default is root.
	User string
	// Dir is the working directory.
	Dir string
	// Env is added to a login's environment.
	Env []string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// outputGrace is how long output may still come from what a command left behind.
const outputGrace = 2 * time.Second

// Exec runs a command on a node, or on the head, in its namespaces but outside of Slurm. The
// error of a command that failed wraps *exec.ExitError.
func (c *Cluster) Exec(ctx context.Context, node string, opts ExecOptions, argv ...string) error {
	if len(argv) == 0 {
		return errors.New("exec: no command")
	}
	pid, err := c.machinePID(ctx, node)
	if err != nil {
		return err
	}
	as, err := lookUp(cmp.Or(opts.User, "root"))
	if err != nil {
		return err
	}
	path := argv[0]
	if !strings.Contains(path, "/") { // a path is meant as the node sees it
		if path, err = supervisor.FindProgram(path); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Dir = opts.Dir
	cmd.Env = append(as.environ(c.SlurmConf()), opts.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = opts.Stdin, opts.Stdout, opts.Stderr
	cmd.WaitDelay = outputGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as.credential()}
	if err := machine.Run(pid, cmd); err != nil {
		return fmt.Errorf("exec on %s: %s: %w", node, argv[0], err)
	}
	return nil
}

// Output is Exec as root that returns what the command prints, without surrounding space.
func (c *Cluster) Output(ctx context.Context, node string, argv ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	err := c.Exec(ctx, node, ExecOptions{Stdout: &stdout, Stderr: &stderr}, argv...)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), err
}

// machinePID is the first process of a running machine.
func (c *Cluster) machinePID(ctx context.Context, name string) (int, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range append(st.Nodes, st.Head) {
		if m.Name != name {
			continue
		}
		if m.PID == 0 {
			return 0, fmt.Errorf("%s is down", name)
		}
		return m.PID, nil
	}
	return 0, fmt.Errorf("no machine %q in dev Slurm %s", name, c.plan.Name)
}
