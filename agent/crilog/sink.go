package crilog

import (
	"bufio"
	"errors"
	"io"
	"math"
	"time"
)

// errLimit says that all bytes that were asked for have been written.
var errLimit = errors.New("the limit is reached")

// fixedTime is how Kubernetes shows times before lines.
const fixedTime = "2006-01-02T15:04:05.000000000Z07:00"

// sink writes lines as they were asked for.
type sink struct {
	options   Options
	out       *bufio.Writer
	flusher   interface{ Flush() error }
	remaining int64
	inLine    bool // what comes next continues a line
}

func newSink(o Options, out io.Writer) *sink {
	s := &sink{options: o, out: bufio.NewWriterSize(out, 64<<10), remaining: math.MaxInt64}
	s.flusher, _ = out.(interface{ Flush() error })
	if o.LimitBytes != nil {
		s.remaining = *o.LimitBytes
	}
	return s
}

// put writes a record, or what the limit leaves of it.
func (s *sink) put(r record) error {
	o := s.options
	if o.Stream != "" && string(r.stream) != o.Stream {
		return nil
	}
	if !o.Since.IsZero() || o.Timestamps && !s.inLine {
		at, err := time.Parse(time.RFC3339Nano, string(r.stamp))
		if err != nil {
			return nil // no line of a log
		}
		if at.Before(o.Since) {
			return nil
		}
		if o.Timestamps && !s.inLine {
			if err := s.write(at.AppendFormat(nil, fixedTime+" ")); err != nil {
				return err
			}
		}
	}
	s.inLine = r.partial
	if err := s.write(r.text); err != nil || r.partial {
		return err
	}
	return s.write([]byte{'\n'})
}

func (s *sink) write(b []byte) error {
	b = b[:min(int64(len(b)), s.remaining)]
	s.remaining -= int64(len(b))
	if _, err := s.out.Write(b); err != nil {
		return err
	}
	if s.remaining <= 0 {
		return errLimit
	}
	return nil
}

// flush sends on what has been written.
func (s *sink) flush() error {
	if err := s.out.Flush(); err != nil || s.flusher == nil {
		return err
	}
	return s.flusher.Flush()
}
