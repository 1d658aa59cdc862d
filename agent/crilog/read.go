package crilog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"syscall"
	"time"
)

// Run is one run's log, to be read: a container's directory and the run's number.
type Run struct {
	Dir    Dir
	Number int
}

// Options are those of the Kubernetes API (corev1.PodLogOptions).
type Options struct {
	// TailLines shows so many last lines, nil all.
	TailLines *int64
	// LimitBytes ends after so many bytes, nil for no limit.
	LimitBytes *int64
	// Since leaves out what was written before.
	Since time.Time
	// Timestamps puts its time before each line.
	Timestamps bool
	// Stream shows one stream only; empty shows both.
	Stream string
	// Ended tells whether the run has ended: it is asked while there is nothing to
	// read. nil reads what there is; otherwise the log is followed until the end.
	Ended func(context.Context) bool
	// Passing tells of an error that it will pass, as that of a connection which is cut
	// does. A follower waits for that as long as its context lets it, and goes on where
	// it was. nil takes none for such a one.
	Passing func(error) bool
}

// The pace of a follower that has read all there is. A shared filesystem tells no
// events from other hosts.
const (
	fastFollow = 50 * time.Millisecond
	slowFollow = 500 * time.Millisecond
)

// Read writes a log's text to out, which is flushed, if it can be, whenever there
// is no more to read. It returns fs.ErrNotExist if the run has no log.
func (r Run) Read(ctx context.Context, o Options, out io.Writer) error {
	sink := newSink(o, out)
	if o.Ended != nil && o.Passing != nil {
		r.Dir = patient{r.Dir, o.Passing, sink.flush}
	}
	list, err := r.parts(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("the log of run %d: %w", r.Number, fs.ErrNotExist)
	}
	f := &follower{
		run: r, part: list[0], last: math.MaxInt, end: math.MaxInt64, ended: o.Ended, sink: sink,
		reader: bufio.NewReaderSize(nil, longest),
	}
	if o.Ended == nil {
		if f.last, f.end, err = r.end(ctx, list); err != nil {
			return err
		}
	}
	if o.TailLines != nil {
		if f.part, f.offset, err = r.tail(ctx, list, *o.TailLines); err != nil {
			return err
		}
	}
	defer f.close()
	err = f.follow(ctx)
	if errors.Is(err, errLimit) {
		err = nil
	}
	return errors.Join(err, f.sink.flush())
}

// parts lists the run's parts.
func (r Run) parts(ctx context.Context) ([]int, error) {
	names, err := namesIn(ctx, r.Dir)
	return parts(names, r.Number), err
}

// end is where a log ends now.
func (r Run) end(ctx context.Context, list []int) (part int, offset int64, err error) {
	part = list[len(list)-1]
	f, err := r.open(ctx, part)
	if err != nil {
		return part, 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	return part, f.Size(), nil
}

func (r Run) open(ctx context.Context, part int) (File, error) {
	f, err := r.Dir.Open(ctx, FileName(r.Number, part))
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return f, nil
}

// follower reads one part after the other.
type follower struct {
	run    Run
	part   int
	offset int64 // up to which the part's lines have been shown
	file   File
	last   int // the part, and where in it, at which to end
	end    int64
	ended  func(context.Context) bool
	sink   *sink
	reader *bufio.Reader
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close()
	}
}

func (f *follower) follow(ctx context.Context) error {
	pause := fastFollow
	over := f.ended == nil // nothing will be added to what is there
	for {
		next, err := f.next(ctx) // before the part is read: it is complete if there is one
		if err != nil {
			return err
		}
		read, err := f.drain(ctx)
		if err != nil {
			return err
		}
		switch {
		case next > 0 && f.part < f.last:
			f.close()
			f.file, f.part, f.offset = nil, next, 0
			continue
		case over:
			return nil
		}
		if err := f.sink.flush(); err != nil {
			return err
		}
		if over = f.ended(ctx); over {
			continue // for what came between
		}
		if pause = min(2*pause, slowFollow); read {
			pause = fastFollow
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// next is the part after this one, 0 if there is none.
func (f *follower) next(ctx context.Context) (int, error) {
	list, err := f.run.parts(ctx)
	if removed(err) {
		return 0, nil // all of it was
	}
	if err != nil {
		return 0, err
	}
	for _, part := range list {
		if part > f.part {
			return part, nil
		}
	}
	return 0, nil
}

// drain shows the lines of the part that have not been shown.
func (f *follower) drain(ctx context.Context) (read bool, err error) {
	if err := f.reopen(ctx); err != nil {
		return false, err
	}
	if f.file == nil {
		return false, nil // it was removed before it was read
	}
	limit := int64(math.MaxInt64)
	if f.part == f.last {
		limit = f.end
	}
	f.reader.Reset(io.NewSectionReader(f.file, f.offset, limit-f.offset))
	for ctx.Err() == nil {
		line, err := f.reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			f.offset += int64(len(line)) // no line of ours is so long
			continue
		}
		if errors.Is(err, io.EOF) || removed(err) {
			return read, nil
		}
		if err != nil {
			return read, fmt.Errorf("reading the log: %w", err)
		}
		f.offset += int64(len(line))
		if r, ok := parse(line); ok {
			read = true
			if err := f.sink.put(r); err != nil {
				return read, err
			}
		}
	}
	return read, ctx.Err()
}

// reopen opens the part again: at an open, a network filesystem asks its server
// how long the file is by now (nfs(5), close-to-open consistency).
func (f *follower) reopen(ctx context.Context) error {
	file, err := f.run.open(ctx, f.part)
	if removed(err) {
		return nil // what is open already may be read all the same
	}
	if err != nil {
		return err
	}
	f.close()
	f.file = file
	return nil
}

// removed tells that a file is not there any more; ESTALE is a file server's word.
func removed(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE)
}

// record is one line of a log's file.
type record struct {
	stamp, stream, text []byte
	partial             bool
}

// parse reads a line with its end.
func parse(line []byte) (record, bool) {
	line, ended := bytes.CutSuffix(line, []byte{'\n'})
	var r record
	var tag []byte
	var ok [3]bool
	r.stamp, line, ok[0] = bytes.Cut(line, []byte{' '})
	r.stream, line, ok[1] = bytes.Cut(line, []byte{' '})
	tag, r.text, ok[2] = bytes.Cut(line, []byte{' '})
	r.partial = string(tag) == "P"
	known := string(r.stream) == Stdout || string(r.stream) == Stderr
	return r, ended && ok == [3]bool{true, true, true} && known && (r.partial || string(tag) == "F") && isStamp(r.stamp)
}

// isStamp tells whether a text begins like a time, which is all that is needed
// of most.
func isStamp(b []byte) bool {
	const shape = "0000-00-00T00:00:00"
	if len(b) <= len(shape) {
		return false
	}
	for i := range len(shape) {
		digit := b[i] >= '0' && b[i] <= '9'
		if (shape[i] == '0') != digit || !digit && b[i] != shape[i] {
			return false
		}
	}
	return true
}
