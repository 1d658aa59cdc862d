package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one of the product's programs, run for a test or the demo. Its log
// goes to a file of its directory.
type process struct {
	dir, name string
	detached  bool // it outlives this program

	cmd    *exec.Cmd
	exited chan struct{}
}

// start runs the prepared command. It gets a session of its own, so that a
// Ctrl-C meant for this program does not reach it, and dies with this program
// unless it is detached.
func (p *process) start(cmd *exec.Cmd) error {
	log, err := os.OpenFile(p.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.name, err)
	}
	defer log.Close() //nolint:errcheck // the child has its own
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if !p.detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	exited := make(chan struct{})
	if err := StartOnThread(cmd, func() { close(exited) }); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.cmd, p.exited = cmd, exited
	return nil
}

// StartOnThread starts a command from a thread that lives as long as the command does, and
// calls ended at its end: a Pdeathsig is sent when the *thread* that started a process ends,
// not the program.
func StartOnThread(cmd *exec.Cmd, ended func()) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := startProgram(cmd)
		started <- err
		if err == nil {
			_ = cmd.Wait()
			ended()
		}
	}()
	return <-started
}

// waitReady waits until a URL of the process answers 200.
func (p *process) waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for !answersOK(ctx, url) {
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended; its log says: %s", p.name, p.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to be ready: %w; its log says: %s", p.name, ctx.Err(), p.LogTail())
		case <-ticker.C:
		}
	}
	return nil
}

func answersOK(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// startProgram starts a program that was installed a moment ago. A process that is being
// started beside it holds the file open for writing until it runs its own
// (https://go.dev/issue/22315).
func startProgram(cmd *exec.Cmd) error {
	err := cmd.Start()
	for tries := 0; errors.Is(err, syscall.ETXTBSY) && tries < 100; tries++ {
		time.Sleep(50 * time.Millisecond)
		again := exec.Command(cmd.Path)
		again.Args, again.Env, again.Dir, again.Stdout, again.Stderr, again.SysProcAttr = cmd.Args, cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr
		*cmd = *again
		err = cmd.Start()
	}
	return err
}

// Kill ends the process at once, as a crash would.
func (p *process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// PID is the process's number while it runs.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Freeze stops the process as a machine that is overloaded would, and Thaw lets it go on.
func (p *process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw is the end of Freeze.
func (p *process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Exited is closed when the process has ended.
func (p *process) Exited() <-chan struct{} { return p.exited }

// Stop ends the process kindly.
func (p *process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(15 * time.Second):
		return p.Kill()
	}
}

// LogFile is where the process writes.
func (p *process) LogFile() string { return filepath.Join(p.dir, p.name+".log") }

// LogTail is the end of the log, for messages.
func (p *process) LogTail() string {
	data, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err.Error()
	}
	const tail = 3000
	return string(data[max(0, len(data)-tail):])
}

// programsGrace is how long programs have to end when they are asked to.
const programsGrace = 5 * time.Second

// endPrograms ends what runs from programs below a directory, and waits for it: those
// that another run has left, and the agents of the local workload manager with their
// pods. Jobs outlive the provider on purpose.
func endPrograms(dir string) error {
	for _, round := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGTERM, programsGrace}, {syscall.SIGKILL, programsGrace}} {
		for deadline := time.Now().Add(round.within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			pids, err := programs(dir)
			if err != nil || len(pids) == 0 {
				return err
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, round.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("ending program %d: %w", pid, err)
				}
			}
		}
	}
	return fmt.Errorf("programs below %s do not end", dir)
}

// programs are the processes that run a program below a directory.
func programs(dir string) ([]int, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil, fmt.Errorf("looking for programs: %w", err)
	}
	var pids []int
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(exe, dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// install copies a program to where others can run it, as a whole.
func install(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("installing %s (make build makes it): %w", filepath.Base(from), err)
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.CreateTemp(filepath.Dir(to), ".install.*")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close(), os.Rename(out.Name(), to))
}

func freePort() (int32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close() //nolint:errcheck // it only showed the number
	return int32(l.Addr().(*net.TCPAddr).Port), nil
}
