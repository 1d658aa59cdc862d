package unpack

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
)

const (
	// smallFile is up to which size files are written side by side. Shared filesystems
	// take milliseconds for each file, but as many at once as one likes.
	smallFile = 1 << 20
	// side is how many are.
	side = 8
)

// writers write files side by side. All of its calls are of one goroutine.
type writers struct {
	slots   chan struct{}
	running sync.WaitGroup
	pending map[string]bool // paths of the tree

	mu  sync.Mutex
	err error // the first
}

func newWriters() *writers {
	return &writers{slots: make(chan struct{}, side), pending: map[string]bool{}}
}

// do has a file written, and returns what went wrong with an earlier one.
func (w *writers) do(path string, write func() error) error {
	w.pending[path] = true
	w.slots <- struct{}{}
	w.running.Go(func() {
		err := write()
		w.mu.Lock()
		if w.err == nil {
			w.err = err
		}
		w.mu.Unlock()
		<-w.slots
	})
	return w.failed()
}

// settle waits if the file of that path may still be written.
func (w *writers) settle(path string) error {
	if !w.pending[path] {
		return nil
	}
	return w.wait()
}

// wait waits until all are written.
func (w *writers) wait() error {
	w.running.Wait()
	clear(w.pending)
	return w.failed()
}

func (w *writers) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// folder is an open directory, which is closed when nobody needs it any more.
type folder struct {
	*os.Root
	name  string
	users atomic.Int32
}

func (f *folder) hold() { f.users.Add(1) }

func (f *folder) release() {
	if f.users.Add(-1) == 0 {
		f.Close() //nolint:errcheck // only a way to its files
	}
}

// create makes a file in place of what stands there, which is no directory.
func (f *folder) create(base string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	made, err := f.OpenFile(base, flags, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return made, err
	}
	if err := f.Remove(base); err != nil {
		return nil, err
	}
	return f.OpenFile(base, flags, 0o600)
}
