package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/gangline/gangline/provider/spool"
)

// Local is the site as this process' own user sees it.
type Local struct {
	// Lock, from spool.Lock, is what locked commands inherit; nil for none.
	Lock *os.File
}

var _ Site = Local{}

// plainStamp is an open file's. A file is always opened for it: a shared filesystem
// answers a mere stat from its cache, for as long as a minute, and asks the server
// at an open (nfs(5), close-to-open consistency).
func plainStamp(f *os.File) (Stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return Stamp{}, ErrNotPlain
	}
	stamp := Stamp{Modified: info.ModTime().UnixNano(), Size: info.Size()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp.Inode = system.Ino
	}
	return stamp, nil
}

func readAll(f *os.File, stamp Stamp, most int64) ([]byte, error) {
	if stamp.Size > most {
		return nil, fmt.Errorf("it has %d bytes, and may have %d: %w", stamp.Size, most, ErrTooLarge)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// Write implements Files.
func (Local) Write(_ context.Context, path string, data []byte, mode fs.FileMode) error {
	return spool.WriteFile(path, data, mode)
}

// Changed implements Files.
func (Local) Changed(ctx context.Context, files []Watched) ([]Change, error) {
	var changes []Change
	room := int64(MaxChanged)
	for i, w := range files {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		limit := room
		if len(changes) == 0 {
			limit = MaxFile
		}
		if c, changed := look(w, limit); changed {
			c.Index = i
			room -= int64(len(c.Data))
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// look reads a file if it has changed. One of more bytes than the limit is left for
// another time.
//
// Nearly always it has not, and there are thousands of files: so it is opened by the
// system's calls alone, and only one that is to be read becomes an os.File.
func look(w Watched, limit int64) (Change, bool) {
	fd, err := retried(func() (int, error) {
		return syscall.Open(w.Path, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Change{}, w.Stamp != Stamp{}
	}
	if errors.Is(err, syscall.ELOOP) {
		err = ErrNotPlain
	}
	if err != nil {
		return Change{Err: fmt.Errorf("reading %s: %w", w.Path, err)}, true
	}
	var info syscall.Stat_t
	_, err = retried(func() (int, error) { return 0, syscall.Fstat(fd, &info) })
	stamp := Stamp{Modified: info.Mtim.Nano(), Size: info.Size, Inode: info.Ino}
	if err == nil && info.Mode&syscall.S_IFMT != syscall.S_IFREG {
		err = ErrNotPlain
	}
	if err == nil && (stamp == w.Stamp || stamp.Size > limit && stamp.Size <= w.most()) {
		_ = syscall.Close(fd) // only read
		return Change{}, false
	}
	f := os.NewFile(uintptr(fd), w.Path) //nolint:gosec // it is none below 0
	defer f.Close()                      //nolint:errcheck // only read
	var data []byte
	if err == nil {
		data, err = readAll(f, stamp, w.most())
	}
	if err != nil {
		return Change{Err: fmt.Errorf("reading %s: %w", w.Path, err)}, true
	}
	return Change{Stamp: stamp, Data: data}, true
}

// retried is a system call that a signal does not keep from its answer.
func retried(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// List implements Files.
func (Local) List(_ context.Context, dir string) ([]Entry, error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	entries := make([]Entry, len(found))
	for i, e := range found {
		entries[i] = Entry{Name: e.Name(), Dir: e.IsDir()}
	}
	return entries, nil
}

// Names implements Files.
func (Local) Names(_ context.Context, root, dir string) ([]string, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("listing %s in %s: %w", dir, root, err)
	}
	defer r.Close() //nolint:errcheck // only read
	f, err := r.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("listing %s in %s: %w", dir, root, err)
	}
	defer f.Close() //nolint:errcheck // only read
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing %s in %s: %w", dir, root, err)
	}
	return names, nil
}

// ReadAt implements Files.
func (Local) ReadAt(_ context.Context, root, name string, offset int64, n int) (Piece, error) {
	var p Piece
	f, err := openIn(root, name)
	if err == nil {
		defer f.Close() //nolint:errcheck // only read
		p.Stamp, err = plainStamp(f)
	}
	if err == nil {
		p.Data = make([]byte, max(0, min(int64(n), MaxPiece, p.Stamp.Size-offset)))
		n, err = f.ReadAt(p.Data, offset)
		p.Data = p.Data[:n]
		if errors.Is(err, io.EOF) {
			err = nil // it got shorter in between
		}
	}
	if err != nil {
		return Piece{}, fmt.Errorf("reading %s in %s: %w", name, root, err)
	}
	return p, nil
}

// openIn opens what lies below a root. The name itself must not be a link.
func openIn(root, name string) (*os.File, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read
	before, err := r.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, ErrNotPlain
	}
	f, err := r.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = ErrNotPlain
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// CreateAllocation implements Files.
func (Local) CreateAllocation(_ context.Context, root spool.Root, g spool.Gang) error {
	return root.Create(g)
}

// RemoveAllocation implements Files.
func (Local) RemoveAllocation(_ context.Context, dir spool.Dir) error { return dir.Remove() }

// Sweep implements Files.
func (Local) Sweep(_ context.Context, root spool.Root, node string) error { return root.Sweep(node) }

// DialContext implements Dialer.
func (Local) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}
