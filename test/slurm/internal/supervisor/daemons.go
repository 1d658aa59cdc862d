package supervisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/test/slurm/internal/machine"
	"github.com/gangline/gangline/test/slurm/internal/plan"
)

const (
	pollEvery = 50 * time.Millisecond
	// stopWithin is how long a daemon may take to end after SIGTERM.
	stopWithin = 10 * time.Second
)

// startMunge starts munged in the head and waits until it answers.
func (s *supervisor) startMunge(ctx context.Context) error {
	munge, err := idsOf("munge")
	if err != nil {
		return err
	}
	s.munge, err = s.startDaemon(s.head.machine, "munged", munge, "munged", "--foreground",
		"--socket="+s.plan.MungeSocket(), "--key-file="+mungeFile(s.plan, "munge.key"),
		"--pid-file="+mungeFile(s.plan, "munged.pid"), "--seed-file="+mungeFile(s.plan, "munged.seed"), "--num-threads=10")
	if err != nil {
		return err
	}
	return s.await(ctx, "munged", s.munge, func() error {
		conn, err := net.Dial("unix", s.plan.MungeSocket())
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// startController starts slurmctld in the head and waits until it answers.
func (s *supervisor) startController(ctx context.Context) error {
	if running(s.controller) {
		return nil
	}
	slurm, err := idsOf("slurm")
	if err != nil {
		return err
	}
	s.controller, err = s.startDaemon(s.head.machine, "slurmctld", slurm, "slurmctld", "-D", "-f", s.plan.SlurmConf())
	if err != nil {
		return err
	}
	return s.await(ctx, "slurmctld", s.controller, func() error {
		out, err := slurmCommand(ctx, s.plan, "scontrol", "ping")
		if err != nil {
			return err
		}
		if !strings.Contains(out, " is UP") {
			return fmt.Errorf("scontrol ping: %s", out)
		}
		return nil
	})
}

// stopController ends slurmctld: kindly, so that it saves its state, or not.
func (s *supervisor) stopController(kill bool) error {
	if !running(s.controller) {
		return nil
	}
	if kill {
		return s.endDaemon(s.controller, unix.SIGKILL)
	}
	return s.endDaemon(s.controller, unix.SIGTERM)
}

func (s *supervisor) startSlurmd(n *node) error {
	var err error
	n.slurmd, err = s.startDaemon(n.machine, "slurmd."+n.name, ids{0, 0}, "slurmd", "-D", "-N", n.name,
		"-f", s.plan.SlurmConf())
	return err
}

// startDaemon starts a daemon in a machine as the given user. What it prints goes to
// <name>.out in the log folder.
func (s *supervisor) startDaemon(m *machine.Machine, name string, as ids, program string, args ...string) (*machine.Process, error) {
	return s.startDaemonWith(m, nil, name, as, program, args...)
}

// startDaemonWith is startDaemon for one that needs more in its environment.
func (s *supervisor) startDaemonWith(
	m *machine.Machine, env []string, name string, as ids, program string, args ...string,
) (*machine.Process, error) {
	path, err := FindProgram(program)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(s.plan.LogFile(name+".out"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Env = append([]string{"PATH=" + SystemPath, "SLURM_CONF=" + s.plan.SlurmConf()}, env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)},
		Setsid:     true,
	}
	var restrict []func() error
	if s.plan.NoUserNamespaces {
		restrict = append(restrict, machine.ForbidUserNamespaces)
	}
	p, err := machine.Enter(m.PID(), cmd, restrict...)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s.log.Info("started", "daemon", name, "pid", p.PID())
	return p, nil
}

func (s *supervisor) endDaemon(p *machine.Process, sig unix.Signal) error {
	if err := p.Signal(sig); err != nil && running(p) {
		return fmt.Errorf("signal a daemon: %w", err)
	}
	select {
	case <-p.Done():
		return nil
	case <-time.After(stopWithin):
	}
	s.log.Warn("a daemon did not end in time: killed", "pid", p.PID())
	if err := p.Signal(unix.SIGKILL); err != nil && running(p) {
		return fmt.Errorf("kill a daemon: %w", err)
	}
	<-p.Done()
	return nil
}

// await polls until ready returns nil. It fails at once when the daemon has ended.
func (s *supervisor) await(ctx context.Context, name string, p *machine.Process, ready func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended at once (%v): %s", name, p.Wait(), s.lastWords(name))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w: %s", name, ctx.Err(), err, s.lastWords(name))
		case <-tick.C:
		}
	}
}

// lastWords are the end of what a daemon logged or printed.
func (s *supervisor) lastWords(name string) string {
	const most = 600
	for _, file := range []string{name + ".log", name + ".out"} {
		data, err := os.ReadFile(s.plan.LogFile(file))
		if err == nil && len(data) > 0 {
			return strings.TrimSpace(string(data[max(0, len(data)-most):]))
		}
	}
	return "no log"
}

func running(p *machine.Process) bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

func daemonStatus(p *machine.Process) DaemonStatus {
	switch {
	case p == nil:
		return DaemonStatus{}
	case running(p):
		return DaemonStatus{PID: p.PID()}
	}
	if err := p.Wait(); err != nil {
		return DaemonStatus{Ended: err.Error()}
	}
	return DaemonStatus{Ended: "exit status 0"}
}

// slurmCommand runs one of Slurm's commands outside, as root.
func slurmCommand(ctx context.Context, p plan.Plan, name string, args ...string) (string, error) {
	path, err := FindProgram(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=" + SystemPath, "SLURM_CONF=" + p.SlurmConf()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}
