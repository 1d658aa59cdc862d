package process

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// mostQuiets is after how many quiet times the output's end is no longer waited
// for: a daemon that goes on writing is never quiet.
const mostQuiets = 10

// CopyOutput copies what a process and its descendants write to the pipe, and
// closes the pipe. It ends when nobody has the pipe's other end any more or,
// once ended is closed, when the pipe has been empty for the quiet time, or ten
// times that have passed: what the process wrote is never lost, and a daemon
// that keeps the pipe open holds nobody up.
func CopyOutput(w io.Writer, pipe *os.File, ended <-chan struct{}, quiet time.Duration) error {
	copied := make(chan struct{})
	defer pipe.Close() //nolint:errcheck // only read
	defer close(copied)
	go func() {
		select {
		case <-ended:
			_ = pipe.SetReadDeadline(time.Now().Add(quiet)) // wakes a read that waits
		case <-copied:
		}
	}()
	var last time.Time // when to end, known once the process has ended
	owed := 0          // what the process itself may have written and is to be read
	buf := make([]byte, 64<<10)
	for {
		select {
		case <-ended:
			now := time.Now()
			if last.IsZero() {
				last, owed = now.Add(mostQuiets*quiet), readable(pipe)
			}
			if owed <= 0 && now.After(last) {
				return nil
			}
			if err := pipe.SetReadDeadline(now.Add(quiet)); err != nil {
				return err
			}
		default:
		}
		n, err := pipe.Read(buf)
		owed -= n
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && readable(pipe) > 0 {
			continue // the time was over before this was read; the pipe was not empty
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readable is how many bytes the pipe holds.
func readable(pipe *os.File) int {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	_ = conn.Control(func(fd uintptr) {
		n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) //nolint:gosec // a file descriptor
	})
	return n
}
