package crilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Tail returns the end of a log as the program wrote it, without times, given the
// path of its first part: at most maxLines lines and maxBytes bytes.
func Tail(path string, maxLines, maxBytes int) (string, error) {
	run, _, ok := parseName(filepath.Base(path))
	if !ok {
		return "", fmt.Errorf("reading the end of the log %s: this is no run's name", path)
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("reading the log's end: %w", err)
	}
	defer dir.Close() //nolint:errcheck // only read
	lines, end := int64(maxLines), ending{max: maxBytes}
	if err := (Run{rootDir{dir}, run}).Read(context.Background(), Options{TailLines: &lines}, &end); err != nil {
		return "", fmt.Errorf("reading the log's end: %w", err)
	}
	return string(end.text), nil
}

// ending keeps the last bytes of what is written to it.
type ending struct {
	max  int
	text []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p...)
	e.text = append(e.text[:0], e.text[max(0, len(e.text)-e.max):]...)
	return len(p), nil
}

// tail finds where the last lines begin.
func (r Run) tail(ctx context.Context, list []int, lines int64) (part int, offset int64, err error) {
	if lines == 0 {
		return r.end(ctx, list)
	}
	s := scan{left: lines}
	first := list[0]
	for i := len(list) - 1; i >= 0; i-- {
		offset, found, err := s.part(ctx, r, list[i])
		if removed(err) && i < len(list)-1 { // in the meantime: the log begins later now
			first = list[i+1]
			break
		}
		if err != nil {
			return 0, 0, fmt.Errorf("looking for the log's last lines: %w", err)
		}
		if found {
			return list[i], offset, nil
		}
	}
	return first, 0, nil
}

// scan counts lines from the end of a log.
type scan struct {
	left int64 // lines to be found
	any  bool  // a piece of a line has been seen
}

const (
	// backStep is how much of a file is looked at at once.
	backStep = 256 << 10
	// longest is more than any line of ours takes. What goes on for longer is not kept:
	// who owns the file may have put anything there.
	longest = 4 * maxPiece
)

func (s *scan) part(ctx context.Context, r Run, part int) (int64, bool, error) {
	f, err := r.open(ctx, part)
	if err != nil {
		return 0, false, err
	}
	defer f.Close() //nolint:errcheck // only read
	return s.back(ctx, f)
}

// back looks through a part from its end on. The lines that are looked for begin
// at the offset it returns, unless they begin in an earlier part.
func (s *scan) back(ctx context.Context, f File) (int64, bool, error) {
	var rest []byte // the beginning of what was looked at: its line's head is before it
	for low := f.Size(); low > 0; {
		if err := ctx.Err(); err != nil {
			return 0, false, err
		}
		step := min(low, backStep)
		low -= step
		buf := make([]byte, step, step+int64(len(rest)))
		if _, err := f.ReadAt(buf, low); err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}
		buf = append(buf, rest...)
		for {
			// The last whole line of buf is that between the last two ends.
			end := bytes.LastIndexByte(buf, '\n')
			start := bytes.LastIndexByte(buf[:max(end, 0)], '\n') + 1
			if end < 0 || start == 0 && low > 0 {
				rest = buf[:end+1]
				if end < 0 {
					rest = buf
				}
				if len(rest) > longest {
					rest = rest[len(rest)-1:]
				}
				break
			}
			if s.line(buf[start : end+1]) {
				return low + int64(end) + 1, true, nil
			}
			if start == 0 {
				break
			}
			buf = buf[:start]
		}
	}
	return 0, false, nil
}

// line counts a line that comes before those seen, and tells whether it is one
// too many.
func (s *scan) line(line []byte) bool {
	r, ok := parse(line)
	if !ok {
		return false
	}
	if whole := !r.partial; whole || !s.any {
		if s.left == 0 {
			return whole
		}
		s.left--
	}
	s.any = true
	return false
}
