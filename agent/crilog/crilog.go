package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Limits bound what the log of one run takes: so many files of about so many
// bytes. Kubelet's names for them are containerLogMaxSize and
// containerLogMaxFiles. Zero MaxBytes is no bound.
type Limits struct {
	MaxBytes int64
	MaxFiles int
}

// Log is the log of one run of a container. Its streams may write at the same
// time.
type Log struct {
	now    func() time.Time
	limits Limits
	// create makes the file of a part, and remove removes it.
	create func(part int) (file, error)
	remove func(part int) error

	mu           sync.Mutex
	out          file
	size         int64 // of out
	part, oldest int
	pending      []byte
	timer        *time.Timer
	failure      error // the first one
	// missing is why output has not been written since the last that was.
	missing error
	// room is where in out a note may go if there is no space for one, and later
	// where that will be next.
	room, later int64
}

// file is a part's file. What is written goes where it is told to, so that half
// of a line, left by a disk that is full, is written over.
type file interface {
	io.WriterAt
	Truncate(size int64) error
	Close() error
}

// Create makes the log of a run, given the path of its first part, and the
// directories above it, readable by their owner only.
func Create(path string, limits Limits) (*Log, error) {
	dir := filepath.Dir(path)
	run, part, ok := parseName(filepath.Base(path))
	if !ok || part != 0 {
		return nil, fmt.Errorf("creating the log %s: this is no run's name", path)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the log's directory: %w", err)
	}
	of := func(part int) string { return filepath.Join(dir, FileName(run, part)) }
	return newLog(limits, time.Now, func(part int) (file, error) {
		return os.OpenFile(of(part), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	}, func(part int) error {
		return os.Remove(of(part))
	})
}

func newLog(limits Limits, now func() time.Time, create func(int) (file, error), remove func(int) error) (*Log, error) {
	l := &Log{now: now, limits: limits, create: create, remove: remove}
	var err error
	if l.out, err = create(0); err != nil {
		return nil, fmt.Errorf("creating the log: %w", err)
	}
	return l, nil
}

// Stream returns the writer of one stream. It never fails: a full disk must
// stop the log, not the program that writes it. The log then says where output is
// missing, and Close tells of it. The stream must be closed, so that a last line
// without an end is not lost.
func (l *Log) Stream(name string) io.WriteCloser {
	return &stream{log: l, name: name}
}

// Close writes what is left and closes the file. It returns the first error
// that any write met.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	if l.missing != nil {
		l.noteInside()
	}
	err := l.out.Close()
	if l.failure != nil {
		return fmt.Errorf("writing the log: %w", l.failure)
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
	if l.limits.MaxBytes > 0 && l.size > 0 && l.size+int64(len(l.pending)) > l.limits.MaxBytes {
		l.rotate()
	}
	l.write(l.pending)
	l.pending = l.pending[:0]
}

// write writes whole lines, or none of them.
func (l *Log) write(lines []byte) {
	if l.missing != nil {
		lines = append(l.note(), lines...)
	}
	if _, err := l.out.WriteAt(lines, l.size); err != nil {
		l.fail(err)
		_ = l.out.Truncate(l.size) // what is written next hides half a line as well
		return
	}
	inside := bytes.LastIndexByte(lines[:max(0, len(lines)-noteRoom)], '\n') + 1
	start := l.size + int64(inside)
	l.size += int64(len(lines))
	l.missing = nil
	switch {
	case inside > 0:
		l.room, l.later = start, l.size
	case l.size-l.later >= noteRoom:
		l.room, l.later = l.later, l.size
	}
}

func (l *Log) fail(err error) {
	l.missing = err
	if l.failure == nil {
		l.failure = err
	}
}

// noteRoom is more than a note takes.
const noteRoom = 512

// note is the line that stands for output that is missing.
func (l *Log) note() []byte {
	reason := l.missing
	if path := (*fs.PathError)(nil); errors.As(reason, &path) {
		reason = path.Err // the path is the site's business
	}
	return fmt.Appendf(nil, "%s %s F [gangline: output is missing here, it could not be written: %.200s]\n",
		l.now().UTC().Format(time.RFC3339Nano), Stderr, reason)
}

// noteInside writes the note over the log's last lines: there the disk has space
// for it even if it is full.
func (l *Log) noteInside() {
	note := l.note()
	if l.size-l.room < int64(len(note)) {
		return
	}
	if _, err := l.out.WriteAt(note, l.room); err == nil {
		_ = l.out.Truncate(l.room + int64(len(note)))
	}
}

// rotate begins the next part and removes those that are too many. If there can
// be no next one, the present one grows.
func (l *Log) rotate() {
	next, err := l.create(l.part + 1)
	if err != nil {
		l.fail(err)
		return
	}
	if err := l.out.Close(); err != nil {
		l.fail(err)
	}
	l.out, l.size, l.room, l.later = next, 0, 0, 0
	l.part++
	for l.part-l.oldest >= max(l.limits.MaxFiles, 1) {
		if err := l.remove(l.oldest); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return // the next time
		}
		l.oldest++
	}
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
		if len(s.log.pending) >= flushSize {
			s.log.flush()
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
