package sshdtest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sftpserver"
)

// sftp is the one subsystem.
const sftp = "sftp"

// Shell runs commands as processes of this machine, the way an agent does in a
// pod.
type Shell struct {
	// Env is the environment of the pod.
	Env []string
	Dir string
}

var _ sshd.Runner = Shell{}

// Run implements sshd.Runner.
func (s Shell) Run(ctx context.Context, c sshd.Command) (int, error) {
	if c.Subsystem == sftp {
		return 0, sftpserver.Serve(c.Stdin, c.Stdout)
	}
	argv := c.Argv
	switch {
	case argv != nil:
	case c.Line != "":
		argv = []string{"/bin/sh", "-c", c.Line}
	default:
		argv = []string{"/bin/sh", "-l"}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.Dir, append(s.Env[:len(s.Env):len(s.Env)], c.Env...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if c.PTY != nil {
		return s.onTerminal(cmd, c)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	// A pipe of our own, because Wait would wait for a copy of os/exec's.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(stdin, c.Stdin)
		stdin.Close()
	}()
	return wait(cmd, c, nil)
}

func (s Shell) onTerminal(cmd *exec.Cmd, c sshd.Command) (int, error) {
	cmd.Env = append(cmd.Env, "TERM="+c.PTY.Term)
	terminal, err := pty.StartWithSize(cmd, winsize(c.PTY.Size))
	if err != nil {
		return 0, err
	}
	defer terminal.Close()
	go io.Copy(terminal, c.Stdin) //nolint:errcheck // the command need not read everything
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(c.Stdout, terminal) // ends with EIO when the last process has closed it
	}()
	status, err := wait(cmd, c, terminal)
	<-copied
	return status, err
}

// wait passes on signals and sizes until the command ends.
func wait(cmd *exec.Cmd, c sshd.Command, terminal *os.File) (int, error) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
					return 128 + int(status.Signal()), nil
				}
				return exit.ExitCode(), nil
			}
			return 0, err
		case name := <-c.Signals:
			_ = syscall.Kill(-cmd.Process.Pid, unix.SignalNum("SIG"+name))
		case size := <-c.Resize:
			if terminal != nil {
				_ = pty.Setsize(terminal, winsize(size))
			}
		}
	}
}

func winsize(s sshd.Size) *pty.Winsize { return &pty.Winsize{Rows: s.Rows, Cols: s.Columns} }
