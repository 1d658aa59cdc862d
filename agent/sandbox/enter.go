package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
)

// ModeVariable is the environment variable that says whether private roots are
// used: "off" for never.
const (
	ModeVariable = "GANGLINE_PRIVATE_ROOT"
	modeOff      = "off"
	modeEntered  = "entered" // set by Enter for the program it starts
)

// ErrOff says that private roots are switched off.
var ErrOff = errors.New("private roots are switched off (" + ModeVariable + "=" + modeOff + ")")

// Entry is what Enter found.
type Entry struct {
	// Ended tells that the program ran, and ended with Code, in another process.
	Ended bool
	Code  int
	// Unavailable says why this process cannot make private roots, nil if it can.
	Unavailable error
}

// Enter starts the whole program again, with the same arguments, in a user
// namespace in which it keeps its user and group id and may mount. A program
// with several threads cannot enter one by itself. In that second process Enter
// returns at once; in the first one it passes signals on and returns when the
// second has ended, after it has killed whatever that left behind.
func Enter() Entry {
	switch os.Getenv(ModeVariable) {
	case modeOff:
		return Entry{Unavailable: ErrOff}
	case modeEntered:
		// Or ps would call it "exe", from the path by which it was started.
		_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
		return Entry{}
	}
	// The second process gets a SIGTERM when the thread that started it ends.
	runtime.LockOSThread()
	// Orphans of the second process fall to this one when it dies.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return Entry{Unavailable: fmt.Errorf("becoming the reaper of orphans: %w", err)}
	}
	signals := make(chan os.Signal, 8)
	passedOn := []os.Signal{unix.SIGTERM, unix.SIGALRM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2}
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	p, err := startInUserNamespace()
	if err != nil {
		runtime.UnlockOSThread()
		return Entry{Unavailable: explain(err)}
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = p.Signal(s)
			case <-ended:
				return
			}
		}
	}()
	state, err := p.Wait()
	close(ended)
	if err != nil {
		slog.Error("waiting for the agent", "error", err)
		return Entry{Ended: true, Code: 1}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := process.KillDescendants(ctx); err != nil {
		slog.Error("ending what the agent left", "error", err)
	}
	return Entry{Ended: true, Code: process.ExitCode(unix.WaitStatus(state.Sys().(syscall.WaitStatus)))}
}

// entryCapabilities are what a program may do in its user namespace, and so to the user's
// own files alone: mount; enter a Place; and lay one directory over another, for which
// the kernel makes a directory that nobody may write to (overlayfs).
var entryCapabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE}

func startInUserNamespace() (*os.Process, error) {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return len(e) > len(ModeVariable) && e[:len(ModeVariable)+1] == ModeVariable+"="
	})
	p, err := os.StartProcess(selfPath, os.Args, &os.ProcAttr{
		Env:   append(env, ModeVariable+"="+modeEntered),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
			AmbientCaps: entryCapabilities,
			Pdeathsig:   unix.SIGTERM,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("entering a user namespace: %w", err)
	}
	return p, nil
}

// explain adds the usual cause to the kernel's answer.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w (sysctl kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns may forbid it)", err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return fmt.Errorf("%w (sysctl user.max_user_namespaces is too small)", err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w (the kernel has no user namespaces)", err)
	}
	return err
}
