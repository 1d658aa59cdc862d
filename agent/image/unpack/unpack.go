package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The names by which a layer removes what is below it:
// https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Tree is a root filesystem in the making.
type Tree struct {
	root   *os.Root
	shared bool

	real  map[string]bool      // directories that are known to be no links
	times map[string]time.Time // of directories, set at the end
	last  *folder              // in which the last file was made
	files *writers
	bytes atomic.Int64
	holes int64 // what sparse files of the archives may have as such
}

// mostSparse bounds an image's sparse files, in bytes: a kilobyte of an archive can stand for
// one of any size. Other files are as large as what the registry sends, unpacked.
const mostSparse = 16 << 30

// Open begins a tree in a directory that exists and is empty. If it is shared, the group
// may do all that the owner may.
func Open(dir string, shared bool) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the tree: %w", err)
	}
	t := &Tree{root: root, shared: shared, real: map[string]bool{".": true}, times: map[string]time.Time{}, files: newWriters()}
	if err := root.Chmod(".", t.mode(0o755)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the tree: %w", err), root.Close())
	}
	return t, nil
}

// Bytes is what has been written.
func (t *Tree) Bytes() int64 { return t.bytes.Load() }

// Close ends the tree.
func (t *Tree) Close() error {
	err := t.files.wait()
	t.forgetLast()
	for dir, at := range t.times {
		if t.real[dir] {
			_ = t.root.Chtimes(dir, at, at) // a layer may have removed it again
		}
	}
	return errors.Join(err, t.root.Close())
}

// Layer adds a layer: a tar archive, not compressed. It reads r to its end.
func (t *Tree) Layer(ctx context.Context, r io.Reader) error {
	archive := tar.NewReader(r)
	own := map[string]bool{} // what this layer has made: its whiteouts are for those below
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading a layer: %w", err)
		}
		if err := t.entry(header, archive, own); err != nil {
			return fmt.Errorf("unpacking %q: %w", header.Name, err)
		}
	}
	if err := t.files.wait(); err != nil {
		return err
	}
	// What follows the archive is still part of what the digest is of.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("reading a layer: %w", err)
	}
	return nil
}

func (t *Tree) entry(h *tar.Header, content io.Reader, own map[string]bool) error {
	name := clean(h.Name)
	if name == "." {
		return t.root.Chmod(".", t.mode(h.FileInfo().Mode()|0o700))
	}
	dir, err := t.resolve(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	if base == opaque {
		return t.empty(dir, own)
	}
	if hidden, found := strings.CutPrefix(base, whiteout); found {
		if hidden == "" || hidden == "." || hidden == ".." {
			return errors.New("a whiteout of no name")
		}
		return t.hide(path.Join(dir, hidden), own)
	}
	p := path.Join(dir, base)
	// A name that leads through a link is this layer's where it leads.
	for up := p; up != "." && !own[up]; up = path.Dir(up) {
		own[up] = true
	}
	return t.make(h, content, dir, base)
}

// make makes one entry. Types that are not here are left out: devices, pipes, and what
// is not a file at all.
func (t *Tree) make(h *tar.Header, content io.Reader, dir, base string) error {
	p := path.Join(dir, base)
	if err := t.files.settle(p); err != nil {
		return err
	}
	if isSparse(h) {
		if h.Size > mostSparse-t.holes {
			return fmt.Errorf("a sparse file of %d bytes: those of an image may have %d in all", h.Size, int64(mostSparse))
		}
		t.holes += h.Size
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return t.directory(h, p)
	case tar.TypeReg, tar.TypeGNUSparse:
		return t.file(h, content, dir, base)
	case tar.TypeSymlink:
		return t.anew(p, func() error { return t.root.Symlink(h.Linkname, p) })
	case tar.TypeLink:
		target, err := t.target(h.Linkname)
		if err != nil {
			return err
		}
		if target == p {
			return nil
		}
		if err := t.files.settle(target); err != nil {
			return err
		}
		return t.anew(p, func() error { return t.link(target, p) })
	}
	return nil
}

// isSparse tells of files with holes, in either of GNU's formats.
func isSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// link makes a hard link, and a copy where the filesystem has no more of them.
func (t *Tree) link(target, p string) error {
	err := t.root.Link(target, p)
	if !errors.Is(err, unix.EMLINK) && !errors.Is(err, unix.EPERM) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	from, err := t.root.Open(target)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("a hard link to %s, which is no file", target)
	}
	to, err := t.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, from)
	t.bytes.Add(n)
	return errors.Join(err, to.Chmod(info.Mode().Perm()), to.Close(), t.root.Chtimes(p, info.ModTime(), info.ModTime()))
}

func (t *Tree) directory(h *tar.Header, p string) error {
	if !t.real[p] {
		info, err := t.root.Lstat(p)
		if err == nil && !info.IsDir() {
			if err := t.remove(p); err != nil {
				return err
			}
		}
		if err := t.root.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		t.real[p] = true
	}
	t.times[p] = h.ModTime
	return t.root.Chmod(p, t.mode(h.FileInfo().Mode()|0o700))
}

// file makes a plain file: a small one aside, while the archive is read on.
func (t *Tree) file(h *tar.Header, content io.Reader, dir, base string) error {
	p := path.Join(dir, base)
	if t.real[p] {
		if err := t.remove(p); err != nil {
			return err
		}
	}
	in, err := t.in(dir)
	if err != nil {
		return err
	}
	write := func(content io.Reader) error {
		f, err := in.create(base)
		if err != nil {
			return err
		}
		n, err := io.Copy(f, content)
		t.bytes.Add(n)
		if err := errors.Join(err, f.Chmod(t.mode(h.FileInfo().Mode()|0o400)), f.Close()); err != nil {
			return err
		}
		return in.Chtimes(base, h.ModTime, h.ModTime)
	}
	if h.Size > smallFile {
		return write(content)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	in.hold()
	return t.files.do(p, func() error {
		defer in.release()
		if err := write(bytes.NewReader(data)); err != nil {
			return fmt.Errorf("unpacking %q: %w", p, err)
		}
		return nil
	})
}

// in opens a directory, and keeps it: a layer's files come directory by directory.
func (t *Tree) in(dir string) (*folder, error) {
	if t.last != nil && t.last.name == dir {
		return t.last, nil
	}
	t.forgetLast()
	opened, err := t.root.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t.last = &folder{Root: opened, name: dir}
	t.last.hold()
	return t.last, nil
}

func (t *Tree) forgetLast() {
	if t.last != nil {
		t.last.release()
		t.last = nil
	}
}

// anew makes what may stand in place of something older.
func (t *Tree) anew(p string, make func() error) error {
	err := make()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := t.remove(p); err != nil {
		return err
	}
	return make()
}

func (t *Tree) remove(p string) error {
	if err := t.files.wait(); err != nil {
		return err
	}
	t.forgetLast()
	for dir := range t.real {
		if dir == p || strings.HasPrefix(dir, p+"/") {
			delete(t.real, dir)
		}
	}
	return t.root.RemoveAll(p)
}

// empty removes what the layers below have put into a directory.
func (t *Tree) empty(dir string, own map[string]bool) error {
	if err := t.files.wait(); err != nil {
		return err
	}
	d, err := t.root.Open(dir)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if err := t.hide(path.Join(dir, name), own); err != nil {
			return err
		}
	}
	return nil
}

// hide removes what the layers below have put at a path, and leaves this layer's own.
func (t *Tree) hide(p string, own map[string]bool) error {
	if !own[p] {
		return t.remove(p)
	}
	if info, err := t.root.Lstat(p); err == nil && info.IsDir() {
		return t.empty(p, own)
	}
	return nil
}

// mode is an entry's, without setuid and setgid, and with the group's part.
func (t *Tree) mode(m fs.FileMode) fs.FileMode {
	m &= fs.ModePerm | fs.ModeSticky
	if t.shared {
		m |= m & 0o700 >> 3
	}
	return m
}
