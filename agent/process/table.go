package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Table starts processes and reaps them, and reaps the orphans they leave.
type Table struct {
	mu     sync.Mutex
	alive  map[int]*Process
	reaped func(pid int, started bool, used time.Duration)
}

// NewTable makes this process the reaper of all its descendants.
func NewTable() (*Table, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming the reaper of orphans: %w", err)
	}
	return &Table{alive: map[int]*Process{}}, nil
}

// OnReap has a function called for each process that is reaped: whether the Table
// has started it, and what processor time it and those it waited for have used.
// It must be quick, and must not call the Table.
func (t *Table) OnReap(f func(pid int, started bool, used time.Duration)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reaped = f
}

// Run reaps until the context ends.
func (t *Table) Run(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		t.reap()
		select {
		case <-ctx.Done():
			return
		case <-died:
		}
	}
}

// Spec is a process to start.
type Spec struct {
	Path  string
	Argv  []string
	Env   []string
	Files []*os.File // the process's descriptors 0, 1, 2, …
	// Terminal makes a descriptor the controlling terminal: TerminalFD, 0 by default.
	Terminal   bool
	TerminalFD int
	// Namespaces are clone flags, e.g. CLONE_NEWNS.
	Namespaces uintptr
	// KillGroup ends the process group at once when the process ends, as the
	// end of a container's first process ends the container.
	KillGroup bool
}

// Start starts a process as the leader of a session and process group of its
// own. It dies when this program dies.
func (t *Table) Start(s Spec) (*Process, error) {
	files := make([]uintptr, len(s.Files))
	for i, f := range s.Files {
		files[i] = f.Fd()
	}
	attr := &syscall.ProcAttr{Env: s.Env, Files: files, Sys: &syscall.SysProcAttr{
		Setsid:     true,
		Setctty:    s.Terminal,
		Ctty:       s.TerminalFD,
		Cloneflags: s.Namespaces,
		Pdeathsig:  unix.SIGKILL,
	}}
	// The lock keeps the reaper from seeing the process before the table has it.
	t.mu.Lock()
	defer t.mu.Unlock()
	pid, err := syscall.ForkExec(s.Path, s.Argv, attr)
	if err != nil {
		return nil, err
	}
	p := &Process{pid: pid, table: t, killGroup: s.KillGroup, done: make(chan struct{})}
	t.alive[pid] = p
	return p, nil
}

func (t *Table) reap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &usage)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		p, ours := t.alive[pid]
		if t.reaped != nil {
			t.reaped(pid, ours, time.Duration(usage.Utime.Nano()+usage.Stime.Nano()))
		}
		if !ours {
			continue // an orphan
		}
		delete(t.alive, pid)
		if p.killGroup {
			// While the group has members the kernel gives its number to
			// nobody else, so this hits them or nothing.
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		p.status = status
		close(p.done)
	}
}

// Process is a process that a Table started.
type Process struct {
	pid       int
	table     *Table
	killGroup bool
	status    unix.WaitStatus // set before done is closed
	done      chan struct{}
}

// PID is the process's number, which is also its group's.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the process ended. It may be asked for once Done is closed.
func (p *Process) Status() unix.WaitStatus { return p.status }

// Signal sends a signal to the process's group. It does nothing once the
// process has ended.
func (p *Process) Signal(sig unix.Signal) error { return p.kill(-p.pid, sig) }

// SignalAlone sends a signal to the process and not to the rest of its group.
func (p *Process) SignalAlone(sig unix.Signal) error { return p.kill(p.pid, sig) }

func (p *Process) kill(whom int, sig unix.Signal) error {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if _, alive := p.table.alive[p.pid]; !alive {
		return nil
	}
	if err := unix.Kill(whom, sig); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %s to process %d: %w", unix.SignalName(sig), whom, err)
	}
	return nil
}

// EndGroup has the rest of the process's group killed when the process ends, as
// with Spec.KillGroup. It does nothing once the process has ended.
func (p *Process) EndGroup() {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	p.killGroup = true
}

// ExitCode is a wait status as a shell and Kubernetes give it: the exit code,
// or 128 plus the signal.
func ExitCode(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
