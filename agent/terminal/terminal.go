package terminal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudoterminal. What is written to Master was typed, and what is
// read from it is what the programs on the terminal print.
type Terminal struct {
	// Master is closed to hang up. A read fails with EIO once no program has the
	// terminal any more.
	Master *os.File
	// Program is the end that programs get. It is to be closed once they have it.
	Program *os.File
}

// Open makes a terminal. Its Master is in non-blocking mode, so that deadlines work
// and closing it wakes whoever reads or writes.
func Open() (*Terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a pseudoterminal: %w", err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx") //nolint:gosec // a file descriptor
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	number := 0
	if err == nil {
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unlocking a pseudoterminal: %w", err), master.Close())
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a pseudoterminal: %w", err), master.Close())
	}
	return &Terminal{Master: master, Program: program}, nil
}

// Resize sets the size in characters; the programs on the terminal get a SIGWINCH.
func (t *Terminal) Resize(columns, rows uint16) error {
	conn, err := t.Master.SyscallConn()
	if err != nil {
		return fmt.Errorf("resizing a terminal: %w", err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}) //nolint:gosec // a file descriptor
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("resizing a terminal: %w", err)
	}
	return nil
}

// Close closes both ends.
func (t *Terminal) Close() error {
	return errors.Join(ignoreClosed(t.Program.Close()), ignoreClosed(t.Master.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
