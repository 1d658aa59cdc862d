package machine

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

const namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC

// Process is a command that runs in a machine.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Enter starts cmd in the machine whose first process is pid. The command dies with
// the machine at the latest. (Not with the calling thread: for a process whose parent is
// outside of its pid namespace, Go takes the parent for dead and kills the process.)
// What restricts the command is done on the thread that starts it, which then ends.
func Enter(pid int, cmd *exec.Cmd, restrict ...func() error) (*Process, error) {
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	started := make(chan error, 1)
	go onSpareThread(func() { started <- enterAndStart(pid, cmd, restrict) })
	if err := <-started; err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func enterAndStart(pid int, cmd *exec.Cmd, restrict []func() error) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("find the machine: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("prepare a thread for the machine: %w", err)
	}
	if err := unix.Setns(fd, namespaces); err != nil {
		return fmt.Errorf("enter the machine: %w", err)
	}
	for _, r := range restrict {
		if err := r(); err != nil {
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s in the machine: %w", cmd.Path, err)
	}
	return nil
}

// onSpareThread runs f on a thread that ends with f, for its namespaces are not the
// program's any more. It is never the main thread: that one cannot end, and would keep
// the machine's namespaces alive.
func onSpareThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f() // not unlocked: the thread ends with this goroutine
		return
	}
	taken := make(chan struct{})
	go onSpareThread(func() {
		close(taken)
		f()
	})
	<-taken // while the main thread is held here, the other goroutine gets another one
	runtime.UnlockOSThread()
}

// PID is the command's process, as seen from outside.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the command's end and returns what exec.Cmd.Wait returns.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal to the command.
func (p *Process) Signal(sig unix.Signal) error { return p.cmd.Process.Signal(sig) }

// Run runs cmd in the machine to its end.
func Run(pid int, cmd *exec.Cmd) error {
	p, err := Enter(pid, cmd)
	if err != nil {
		return err
	}
	return p.Wait()
}
