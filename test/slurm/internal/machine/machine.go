package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Spec is what a machine looks like from the inside.
type Spec struct {
	// Owner is shown in the process list, so that leftovers can be found.
	Owner string
	// Hostname is the machine's own name.
	Hostname string
	// BootID is the machine's /proc/sys/kernel/random/boot_id. MPI libraries take
	// two processes with the same value to share memory.
	BootIDFile string
	// HostsFile and ResolvFile become /etc/hosts and /etc/resolv.conf.
	HostsFile, ResolvFile string
	// ProcDir is an empty folder for a second proc that nothing covers: without
	// one the kernel forbids unprivileged users to mount proc in a namespace.
	ProcDir string
}

// Machine is a running set of namespaces.
type Machine struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start makes a machine and returns when it is set up. The machine is killed when the
// calling thread ends: call it from a goroutine locked to a thread that lives on.
func Start(spec Spec, log *os.File) (*Machine, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode the machine: %w", err)
	}
	ready, child, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer ready.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{InitName, spec.Owner, spec.Hostname, string(data)}
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{child}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig: syscall.SIGKILL,
	}
	err = cmd.Start()
	child.Close()
	if err != nil {
		return nil, fmt.Errorf("start machine %s: %w", spec.Hostname, err)
	}
	m := &Machine{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it never ends by itself; how it was killed does not matter
		close(m.done)
	}()
	word, err := io.ReadAll(ready)
	if err == nil && string(word) != readyWord {
		err = errors.New(strings.TrimSpace("it did not come up: " + string(word)))
	}
	if err != nil {
		m.Kill()
		return nil, fmt.Errorf("set up machine %s: %w", spec.Hostname, err)
	}
	return m, nil
}

// PID is the machine's first process, as seen from outside.
func (m *Machine) PID() int { return m.cmd.Process.Pid }

// Done is closed when the machine is gone with every process in it.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Running tells whether the machine is there.
func (m *Machine) Running() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

// Kill ends the machine and everything in it, and waits for that.
func (m *Machine) Kill() {
	_ = m.cmd.Process.Kill() // it may be gone already
	<-m.done
}
