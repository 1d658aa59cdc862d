package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// etcdPatience is how long etcd may take to close its files. It needs a fraction of a second.
const etcdPatience = 3 * time.Second

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
}

type process struct {
	name string
	cmd  *exec.Cmd
	// done is closed when the process is gone.
	done chan struct{}
}

// start runs a component. The caller's goroutine must be locked to its thread and must outlive the component: the
// kernel sends the parent-death signal when the starting *thread* ends, not the process.
func (s *supervisor) start(component string, flags ...string) error {
	logFile, err := os.Create(s.layout.log(component))
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
	p := &process{name: component, cmd: cmd, done: make(chan struct{})}
	s.processes = append(s.processes, p)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		s.fail(&componentError{component: component, logFile: s.layout.log(component), err: err})
		close(p.done)
	}()
	return nil
}

// stop ends the components, the last started first, so that none sees the one it depends on go away.
//
// All but etcd are killed. They keep nothing that a crash could lose, and the API server, asked politely, would take
// seconds to let its watchers down gently.
func (s *supervisor) stop() {
	s.fail(errStopping)
	for _, p := range slices.Backward(s.processes) {
		if p.name == componentEtcd {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
			case <-time.After(etcdPatience):
			}
		}
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (s *supervisor) pids() []componentProcess {
	var pids []componentProcess
	for _, p := range s.processes {
		pids = append(pids, componentProcess{Name: p.name, PID: p.cmd.Process.Pid})
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
