// Package crilog writes and reads container logs in the format of the Container
// Runtime Interface, so that Kubernetes' own code can serve them: a line is
//
//	<RFC 3339 time with nanoseconds> <stdout|stderr> <F|P> <text>
//
// where P marks a piece of a longer line and F its last piece (or a whole line).
package crilog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The names of the streams.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

const (
	// maxPiece is the longest text of one log line, in bytes, as other runtimes
	// have it.
	maxPiece = 16 << 10
	// flushAfter and flushSize bound how long a line, and how many bytes, wait
	// for company before they are written.
	flushAfter = 20 * time.Millisecond
	flushSize  = 64 << 10
)

// Log is one container run's log file. Its streams may write at the same time.
type Log struct {
	now func() time.Time

	mu      sync.Mutex
	out     io.WriteCloser
	pending []byte
	timer   *time.Timer
	err     error // the first failure to write
}

// Create makes a log file and the directories above it, readable by their
// owner only.
func Create(path string) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the log's directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the log: %w", err)
	}
	return newLog(f, time.Now), nil
}

func newLog(out io.WriteCloser, now func() time.Time) *Log {
	return &Log{now: now, out: out}
}

// Stream returns the writer of one stream. It never fails: a full disk must
// stop the log, not the program that writes it. Close tells of it. The stream
// must be closed, so that a last line without an end is not lost.
func (l *Log) Stream(name string) io.WriteCloser {
	return &stream{log: l, name: name}
}

// Close writes what is left and closes the file. It returns the first error
// that any write met.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	err := l.out.Close()
	if l.err != nil {
		return fmt.Errorf("writing the log: %w", l.err)
	}
	if err != nil {
		return fmt.Errorf("closing the log: %w", err)
	}
	return nil
}

func (l *Log) flush() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if len(l.pending) == 0 {
		return
	}
	if _, err := l.out.Write(l.pending); err != nil && l.err == nil {
		l.err = err
	}
	l.pending = l.pending[:0]
}

// flushSoon is called with the lock held, after pending grew.
func (l *Log) flushSoon() {
	switch {
	case len(l.pending) >= flushSize:
		l.flush()
	case len(l.pending) > 0 && l.timer == nil:
		l.timer = time.AfterFunc(flushAfter, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.flush()
		})
	}
}

type stream struct {
	log     *Log
	name    string
	partial []byte // the beginning of a line whose end has not come yet
}

// Write takes any bytes; whole lines of them reach the file soon.
func (s *stream) Write(p []byte) (int, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	stamp := s.log.now().UTC().AppendFormat(nil, time.RFC3339Nano)
	rest := p
	for len(rest) > 0 {
		room := maxPiece - len(s.partial)
		end := bytes.IndexByte(rest[:min(len(rest), room+1)], '\n')
		switch {
		case end >= 0:
			s.emit(stamp, 'F', rest[:end])
			rest = rest[end+1:]
		case len(rest) > room:
			s.emit(stamp, 'P', rest[:room])
			rest = rest[room:]
		default:
			s.partial = append(s.partial, rest...)
			rest = nil
		}
	}
	s.log.flushSoon()
	return len(p), nil
}

// Close writes a last line that has no end, marked as whole.
func (s *stream) Close() error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if len(s.partial) > 0 {
		s.emit(s.log.now().UTC().AppendFormat(nil, time.RFC3339Nano), 'F', nil)
		s.log.flushSoon()
	}
	return nil
}

func (s *stream) emit(stamp []byte, tag byte, text []byte) {
	b := append(s.log.pending, stamp...)
	b = append(b, ' ')
	b = append(b, s.name...)
	b = append(b, ' ', tag, ' ')
	b = append(b, s.partial...)
	b = append(b, text...)
	s.log.pending = append(b, '\n')
	s.partial = s.partial[:0]
}
