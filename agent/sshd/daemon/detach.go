package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/sandbox"
)

// detachedVariable tells the program that it is the daemon, and that its standard
// error is a pipe on which somebody waits: an error to tell, or the end.
const detachedVariable = "GANGLINE_SSHD_DETACHED"

// leads tells that this is its container's own process. It does not become a daemon:
// the container would be over.
func leads() bool {
	session, err := unix.Getsid(0)
	return err == nil && session == os.Getpid()
}

// detach starts the program again as a daemon and returns once that listens. From
// then on the daemon's output is gone, as sshd's is.
func detach(args []string) error {
	hear, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("becoming a daemon: %w", err)
	}
	defer hear.Close() //nolint:errcheck // only read
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(fmt.Errorf("becoming a daemon: %w", err), tell.Close())
	}
	defer null.Close() //nolint:errcheck // nothing was written
	_, err = os.StartProcess(sandbox.Self, slices.Insert(slices.Clone(args), 1, "-D"), &os.ProcAttr{
		Env:   append(os.Environ(), detachedVariable+"=yes"),
		Files: []*os.File{null, null, tell},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err = errors.Join(err, tell.Close()); err != nil {
		return fmt.Errorf("becoming a daemon: %w", err)
	}
	said, err := io.ReadAll(hear)
	if err != nil {
		return fmt.Errorf("becoming a daemon: %w", err)
	}
	if len(said) > 0 {
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}

// letGo ends the wait of whoever started this daemon.
func letGo() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("becoming a daemon: %w", err)
	}
	defer null.Close() //nolint:errcheck // a duplicate stays
	if err := unix.Dup3(int(null.Fd()), 2, 0); err != nil {
		return fmt.Errorf("becoming a daemon: %w", err)
	}
	return nil
}
