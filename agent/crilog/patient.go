package crilog

import (
	"context"
	"time"
)

// patient is a directory the way to which may be cut for a while: what fails for that
// is done again, from where it was, until it succeeds or the context ends.
type patient struct {
	Dir
	passing func(error) bool
	// waiting is called before each wait: it may be a long one.
	waiting func() error
}

func (p patient) Names(ctx context.Context) ([]string, error) {
	var names []string
	err := p.try(ctx, func() (err error) {
		names, err = p.Dir.Names(ctx)
		return err
	})
	return names, err
}

func (p patient) Open(ctx context.Context, name string) (File, error) {
	file := patientFile{ctx: ctx, dir: p}
	err := p.try(ctx, func() (err error) {
		file.File, err = p.Dir.Open(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (p patient) try(ctx context.Context, attempt func() error) error {
	for {
		err := attempt()
		if err == nil || !p.passing(err) {
			return err
		}
		if err := p.waiting(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(slowFollow):
		}
	}
}

type patientFile struct {
	File
	ctx context.Context //nolint:containedctx // io.ReaderAt has no other way
	dir patient
}

func (p patientFile) ReadAt(b []byte, offset int64) (int, error) {
	read := 0
	err := p.dir.try(p.ctx, func() error {
		n, err := p.File.ReadAt(b[read:], offset+int64(read))
		read += n
		return err
	})
	return read, err
}
