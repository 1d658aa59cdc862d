package site

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
)

// Dir is a directory below a root, to be read without leaving the root: that of a
// container's logs, for instance, in its allocation's directory.
type Dir struct {
	Files Files
	Root  string
	// Path is relative to Root.
	Path string
}

// Names lists the directory; fs.ErrNotExist if it is not there.
func (d Dir) Names(ctx context.Context) ([]string, error) { return d.Files.Names(ctx, d.Root, d.Path) }

// Open opens a plain file in the directory.
func (d Dir) Open(ctx context.Context, name string) (*File, error) {
	f := &File{ctx: ctx, files: d.Files, root: d.Root, name: filepath.Join(d.Path, name)}
	p, err := d.Files.ReadAt(ctx, f.root, f.name, 0, 0)
	if err != nil {
		return nil, err
	}
	f.stamp = p.Stamp
	return f, nil
}

// File is an open file. It reads ahead, so that small reads make few round trips,
// and is for one goroutine. Its context is that of Open.
type File struct {
	ctx        context.Context //nolint:containedctx // io.ReaderAt has no other way
	files      Files
	root, name string
	stamp      Stamp

	ahead  []byte
	offset int64 // of ahead
}

var _ io.ReaderAt = (*File)(nil)

// readAhead is how much is read at least.
const readAhead = 256 << 10

// Size is the file's size when it was opened.
func (f *File) Size() int64 { return f.stamp.Size }

// Stamp is the file's when it was opened.
func (f *File) Stamp() Stamp { return f.stamp }

// ReadAt implements io.ReaderAt. A file that another has replaced is ESTALE, as on
// NFS.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	total := 0
	for total < len(p) {
		n, err := f.some(p[total:], offset+int64(total))
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// some reads at least a byte.
func (f *File) some(p []byte, offset int64) (int, error) {
	if at := offset - f.offset; at >= 0 && at < int64(len(f.ahead)) {
		return copy(p, f.ahead[at:]), nil
	}
	piece, err := f.files.ReadAt(f.ctx, f.root, f.name, offset, max(len(p), readAhead))
	if err != nil {
		return 0, err
	}
	if piece.Stamp.Inode != f.stamp.Inode {
		return 0, fmt.Errorf("reading %s: it was replaced: %w", f.name, syscall.ESTALE)
	}
	if len(piece.Data) == 0 {
		return 0, io.EOF
	}
	f.ahead, f.offset = piece.Data, offset
	return copy(p, f.ahead), nil
}

// Close is there because files have one. Nothing is open in between two reads.
func (f *File) Close() error { return nil }
