package process

import (
	"errors"
	"io"
	"os"
	"time"
)

// CopyOutput copies what a process and its descendants write to the pipe, and
// closes the pipe. It ends when nobody has the pipe's other end any more or,
// once ended is closed, when the pipe has been empty for the quiet time: what
// the process wrote is never lost, and a daemon that keeps the pipe open holds
// nobody up.
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
	buf := make([]byte, 64<<10)
	for {
		select {
		case <-ended:
			if err := pipe.SetReadDeadline(time.Now().Add(quiet)); err != nil {
				return err
			}
		default:
		}
		n, err := pipe.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
