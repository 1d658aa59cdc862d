package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// etcdPatience is how long etcd may take to close its files. It needs a fraction of a second.
const etcdPatience = 3 * time.Second

// respawnPause keeps a component that cannot live from being started in a circle.
const respawnPause = 300 * time.Millisecond

// errStopping is the cause that ends a run as it was meant to end.
var errStopping = errors.New("the cluster is being stopped")

// supervisor starts the components and watches over them.
type supervisor struct {
	layout layout
	// program is the path of this program, which is run again for each component.
	program string
	// lock is passed on to the components, so that it is held as long as one of them lives.
	lock *os.File
	// fail ends the run. Only the first cause counts, so a death during the stop is not taken for a failure.
	fail      context.CancelCauseFunc
	processes []*process
	// respawned, once set, has a component that ends started again, and is called each time that was done.
	respawned atomic.Pointer[func()]
}

type process struct {
	name  string
	flags []string
	// mu guards cmd and stopping: a component may be started again.
	mu       sync.Mutex
	cmd      *exec.Cmd
	stopping bool
	// done is closed when the process is gone for good.
	done chan struct{}
}

// start runs a component.
//
// The kernel sends the parent-death signal when the starting *thread* ends, not the process. So each component has a
// goroutine that is locked to its thread and outlives it.
func (s *supervisor) start(component string, flags ...string) error {
	p := &process{name: component, flags: flags, done: make(chan struct{})}
	s.processes = append(s.processes, p)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := s.launch(p)
		started <- err
		for err == nil {
			err = p.cmd.Wait()
			if err == nil {
				err = errors.New("exit status 0")
			}
			err = s.ended(p, err)
		}
	}()
	return <-started
}

// ended is what happens when a component has ended: nil if it runs again.
func (s *supervisor) ended(p *process, how error) error {
	respawned := s.respawned.Load()
	if respawned == nil {
		s.fail(&componentError{component: p.name, logFile: s.layout.log(p.name), err: how})
		return how
	}
	time.Sleep(respawnPause)
	if err := s.launch(p); err != nil {
		s.fail(&componentError{component: p.name, logFile: s.layout.log(p.name), err: errors.Join(how, err)})
		return err
	}
	(*respawned)()
	return nil
}

// launch starts a component's process, unless the cluster is being stopped.
func (s *supervisor) launch(p *process) error {
	component, flags := p.name, p.flags
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return errStopping
	}
	logFile, err := os.OpenFile(s.layout.log(component), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", component, err)
	}
	// The child has its own copy.
	defer func() { _ = logFile.Close() }()

	cmd := exec.Command(s.program, append([]string{"component", component}, flags...)...)
	cmd.Dir = s.layout.dir
	cmd.Stdout = logFile
	cmd.Stderr = logFile
	cmd.ExtraFiles = []*os.File{s.lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Whatever happens to this process, nothing it started stays behind.
		Pdeathsig: syscall.SIGKILL,
		// Ctrl-C in the terminal is for this process alone, which then stops the components in order.
		Setpgid: true,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", component, err)
	}
	p.cmd = cmd
	return nil
}

// signal sends a signal to a component, which is not started again after it.
func (p *process) signal(signal os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(signal)
	}
}

// stop ends the components, the last started first, so that none sees the one it depends on go away.
//
// All but etcd are killed. They keep nothing that a crash could lose, and the API server, asked politely, would take
// seconds to let its watchers down gently.
func (s *supervisor) stop() {
	s.fail(errStopping)
	for _, p := range slices.Backward(s.processes) {
		if p.name == componentEtcd {
			p.signal(syscall.SIGTERM)
			select {
			case <-p.done:
			case <-time.After(etcdPatience):
			}
		}
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

func (s *supervisor) pids() []componentProcess {
	var pids []componentProcess
	for _, p := range s.processes {
		p.mu.Lock()
		pids = append(pids, componentProcess{Name: p.name, PID: p.cmd.Process.Pid})
		p.mu.Unlock()
	}
	return pids
}

// componentError says which component ended the run, and what it said last.
type componentError struct {
	component string
	logFile   string
	err       error
}

func (e *componentError) Unwrap() error { return e.err }

func (e *componentError) Error() string {
	return fmt.Sprintf("%s ended (%s); the end of %s:\n%s", e.component, e.err, e.logFile, tail(e.logFile))
}

// tail returns the last lines of a log, indented, without the ends of very long ones, such as stack traces in JSON.
func tail(path string) string {
	const (
		lines    = 15
		maxBytes = 8 << 10
		maxWidth = 400
	)
	file, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("  (cannot be read: %s)", err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > maxBytes {
		_, _ = file.Seek(-maxBytes, io.SeekEnd)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return fmt.Sprintf("  (cannot be read: %s)", err)
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return "  (empty)"
	}
	all := strings.Split(string(data), "\n")
	last := all[max(0, len(all)-lines):]
	for i, line := range last {
		if len(line) > maxWidth {
			last[i] = line[:maxWidth] + " …"
		}
	}
	return "  " + strings.Join(last, "\n  ")
}
