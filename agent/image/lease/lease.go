package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gangline/gangline/agent/image/dirs"
	"github.com/gangline/gangline/provider/spool/plain"
)

// ErrLost is the cause of the end of a lease's context when another has taken over.
var ErrLost = errors.New("another process has taken over, because this one showed no sign of life")

// size is a lease file's. It never changes, so that a full disk cannot stop a holder's
// signs of life.
const size = 512

// Pace is how often there is a sign of life, and when a missing one means death.
type Pace struct {
	// Beat is the time between a holder's signs of life, and between a waiter's looks.
	Beat time.Duration
	// Dead is how long a waiter must see none.
	Dead time.Duration
}

// Record is what a lease's holder says of itself.
type Record struct {
	Holder string `json:"holder"`
	Beat   int    `json:"beat"`
	// Note is for those who wait: how far it is.
	Note string `json:"note,omitempty"`
}

// Lease is held until Release, or until it is lost.
type Lease struct {
	dir    string
	number int
	file   *os.File
	cancel context.CancelCauseFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	record Record
}

// short keeps a record within a file's size.
func short(text string) string { return text[:min(len(text), size/4)] }

// Wait is what a waiter does between two looks. It returns true to give up waiting.
type Wait func(holder Record) (enough bool)

// Acquire waits for the lease of a directory, which is made if need be. The context that
// it returns ends when the lease is lost. The lease is nil if wait has had enough.
func Acquire(ctx context.Context, dir, holder string, pace Pace, wait Wait) (*Lease, context.Context, error) {
	var seen []byte
	var number int
	since := time.Now()
	tick := time.NewTicker(pace.Beat)
	defer tick.Stop()
	for {
		highest, err := highest(dir)
		if err != nil {
			return nil, nil, err
		}
		data, err := plain.Read(path(dir, highest), size)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("reading who has the lease: %w", err)
		}
		if highest != number || !bytes.Equal(data, seen) {
			number, seen, since = highest, data, time.Now()
		}
		if highest == 0 || time.Since(since) >= pace.Dead {
			l, err := take(dir, highest, Record{Holder: short(holder)})
			if err != nil {
				return nil, nil, err
			}
			if l != nil {
				return l, l.hold(ctx, pace), nil
			}
		}
		var record Record
		_ = json.Unmarshal(data, &record) // half a record is told as none
		if wait(record) {
			return nil, nil, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Note tells those who wait how far it is. They see it with the next sign of life.
func (l *Lease) Note(note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Note = short(note)
}

// Release gives the lease back.
func (l *Lease) Release() {
	l.cancel(context.Canceled)
	l.done.Wait()
	if l.mine() {
		os.Remove(path(l.dir, l.number)) //nolint:errcheck // without it a successor waits until it takes us for dead
	}
	l.file.Close()   //nolint:errcheck // nothing depends on it
	os.Remove(l.dir) //nolint:errcheck // it stays while others are in it
}

// take makes the lease of the next number, and returns nil if another was quicker.
func take(dir string, dead int, r Record) (*Lease, error) {
	if dead == math.MaxInt {
		return nil, fmt.Errorf("taking the lease: no number follows that of %s, which no holder can have reached: remove it", path(dir, dead))
	}
	if err := dirs.Make(dir); err != nil {
		return nil, fmt.Errorf("making the lease's directory: %w", err)
	}
	f, err := os.CreateTemp(dir, ".lease-*")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // its last holder has just removed the directory
	}
	if err != nil {
		return nil, fmt.Errorf("taking the lease: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the temporary name has done its work
	l := &Lease{dir: dir, number: dead + 1, file: f, record: r}
	if err := errors.Join(f.Chmod(0o644), l.write()); err != nil {
		f.Close() //nolint:errcheck // the error is told
		return nil, fmt.Errorf("taking the lease: %w", err)
	}
	linkErr := os.Link(f.Name(), path(dir, l.number))
	// Over NFS the answer to a link that was made may get lost: the file itself tells.
	if linkErr != nil && !l.mine() {
		f.Close() //nolint:errcheck // another has it
		if errors.Is(linkErr, fs.ErrExist) || errors.Is(linkErr, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("taking the lease: %w", linkErr)
	}
	// The holder that was taken for dead may have released it meanwhile, and yet another
	// may have begun from the first number.
	now, err := highest(dir)
	if err != nil || now != l.number || (dead > 0 && !exists(path(dir, dead))) {
		os.Remove(path(dir, l.number)) //nolint:errcheck // nobody beats for it
		f.Close()                      //nolint:errcheck // given back
		return nil, err
	}
	for n := dead; n > 0 && exists(path(dir, n)); n-- {
		os.Remove(path(dir, n)) //nolint:errcheck // a lower number means nothing
	}
	return l, nil
}

func (l *Lease) hold(ctx context.Context, pace Pace) context.Context {
	ctx, l.cancel = context.WithCancelCause(ctx)
	l.done.Go(func() {
		tick := time.NewTicker(pace.Beat)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := l.write(); err == nil {
				last = time.Now()
			}
			if higher, err := highest(l.dir); err == nil && higher != l.number || time.Since(last) > pace.Dead {
				l.cancel(ErrLost)
				return
			}
		}
	})
	return ctx
}

// write is a sign of life. It goes to the open file, never to the name, which may be
// another's by now.
func (l *Lease) write() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Beat++
	data, err := json.Marshal(l.record)
	if err == nil && len(data) > size {
		err = fmt.Errorf("a record of %d bytes", len(data))
	}
	if err != nil {
		return err
	}
	padded := bytes.Repeat([]byte{' '}, size)
	copy(padded, data)
	if _, err := l.file.WriteAt(padded, 0); err != nil {
		return err
	}
	return l.file.Sync() // so that other machines see it
}

func (l *Lease) mine() bool {
	own, err1 := l.file.Stat()
	named, err2 := os.Lstat(path(l.dir, l.number))
	return err1 == nil && err2 == nil && os.SameFile(own, named)
}

func path(dir string, number int) string { return filepath.Join(dir, strconv.Itoa(number)) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// highest is the number of the lease that counts, and 0 if there is none.
func highest(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("looking who has the lease: %w", err)
	}
	found := 0
	for _, e := range entries {
		// 007 would be looked for as 7, and not be there.
		if n, err := strconv.Atoi(e.Name()); err == nil && strconv.Itoa(n) == e.Name() {
			found = max(found, n)
		}
	}
	return found, nil
}

// Nonce is a name that no two processes share.
func Nonce() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%s.%d.%08x", host, os.Getpid(), rand.Uint32())
}
