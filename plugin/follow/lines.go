package follow

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Lines is where lines of several writers go: each line whole, with its writer's prefix.
type Lines struct {
	mu  sync.Mutex
	out io.Writer
	err error
}

// NewLines writes to out.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// write writes one line. After a first error, as of a closed pipe, all calls return it.
func (l *Lines) write(prefix string, line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	whole := make([]byte, 0, len(prefix)+len(line)+1)
	whole = append(append(append(whole, prefix...), line...), '\n')
	if _, err := l.out.Write(whole); err != nil {
		l.err = &writeError{err}
	}
	return l.err
}

// writeError tells errors of the output from those of the logs.
type writeError struct{ err error }

func (e *writeError) Error() string { return "writing the output: " + e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// longest is the length at which a line is cut into several, so that one that never ends
// is shown, and fits into memory.
const longest = 1 << 20 // bytes

// piece is a line of a log, without its end, or a part of one that is too long.
type piece struct {
	text []byte
	// begins tells that a line begins with it.
	begins bool
	// whole tells that its end was seen, or that it was cut for its length. The last line
	// of a log that broke off is not whole, and neither is one that was written without an
	// end.
	whole bool
}

// scan calls see with each line of a log.
func scan(log io.Reader, see func(piece) error) error {
	r := bufio.NewReaderSize(log, 32<<10)
	p := piece{begins: true}
	for {
		part, err := r.ReadSlice('\n')
		p.text = append(p.text, part...)
		full := errors.Is(err, bufio.ErrBufferFull)
		if full && len(p.text) < longest {
			continue
		}
		if p.whole = err == nil || full; p.whole || len(p.text) > 0 {
			p.text = bytes.TrimSuffix(p.text, []byte("\n"))
			if seeErr := see(p); seeErr != nil {
				return seeErr
			}
		}
		if err != nil && !full {
			return ended(err)
		}
		p.text, p.begins = p.text[:0], !full
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("reading the log: %w", err)
}

// stamp takes the time off a line that the API server has put there.
func stamp(line []byte) (at time.Time, text []byte, ok bool) {
	head, rest, found := bytes.Cut(line, []byte(" "))
	if !found {
		head, rest = line, nil
	}
	at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(head)))
	if err != nil {
		return time.Time{}, line, false
	}
	return at, rest, true
}

// cursor is how far a log has been written.
type cursor struct {
	at time.Time
	// count is the number of lines of that time that were written.
	count int
	// passed tells that the lines which come now are new; equal counts those of the time
	// at that have come by until then.
	passed bool
	equal  int
}

// rewind is to be called before a log is read again from about where the cursor is.
func (c *cursor) rewind() { c.passed, c.equal = c.at.IsZero(), 0 }

// is tells whether nothing was written since.
func (c *cursor) is(before cursor) bool { return c.at.Equal(before.at) && c.count == before.count }

// next tells whether a line of that time was not written yet, and counts it as written.
func (c *cursor) next(at time.Time) bool {
	if !c.passed {
		if at.Before(c.at) {
			return false
		}
		if at.Equal(c.at) {
			if c.equal++; c.equal <= c.count {
				return false
			}
		}
		c.passed = true
	}
	if at.Equal(c.at) {
		c.count++
	} else {
		c.at, c.count = at, 1
	}
	return true
}
