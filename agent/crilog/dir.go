package crilog

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
)

// Dir is a container's directory of logs, wherever it is. Its owner may have put
// anything there.
type Dir interface {
	// Names lists the directory. Its error holds fs.ErrNotExist if there is none.
	Names(ctx context.Context) ([]string, error)
	// Open opens a plain file; for anything else, such as a link, it fails. The context
	// bounds what is read of the file as well.
	Open(ctx context.Context, name string) (File, error)
}

// File is an open part of a log. It can be read up to its size, or to where it ends by
// now. One that is found to be gone, or to be another by now, reads fs.ErrNotExist or
// syscall.ESTALE.
type File interface {
	io.ReaderAt
	io.Closer
	// Size is the file's when it was opened, in bytes.
	Size() int64
}

// rootDir is a directory of this machine. Nothing that leads out of it is followed.
type rootDir struct{ root *os.Root }

var _ Dir = rootDir{}

// Names implements Dir.
func (d rootDir) Names(context.Context) ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return f.Readdirnames(-1)
}

// Open implements Dir.
func (d rootDir) Open(_ context.Context, name string) (File, error) {
	before, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !(info.Mode().IsRegular() && os.SameFile(before, info)) {
		err = errors.New("it is not a plain file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return rootFile{f, info.Size()}, nil
}

type rootFile struct {
	*os.File
	size int64
}

// Size implements File.
func (f rootFile) Size() int64 { return f.size }
