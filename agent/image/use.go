package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/image/dirs"
	"github.com/gangline/gangline/agent/image/lease"
)

const (
	// touchEvery is how often a use is confirmed.
	touchEvery = time.Minute
	// useEnds is when a use that is not confirmed counts no more: its agent has died.
	useEnds = 15 * time.Minute
	// lookEvery is how often it is looked whether a removal has come to its end.
	lookEvery = time.Second
)

// use marks an image as used until release is called. First comes the mark and then the
// look whether somebody is about to remove the image; who removes does the same in the
// opposite order, so one of the two sees the other. Both are in one directory: over NFS,
// who has just changed a directory sees what others have done there.
func (s *Store) use(ctx context.Context, dir string) (release func(), _ error) {
	mark := filepath.Join(dir, "used", lease.Nonce())
	for {
		err := dirs.Make(filepath.Dir(mark))
		if err == nil {
			err = os.WriteFile(mark, nil, 0o644)
		}
		if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
			return func() {}, nil // a store that its users cannot write: they remove nothing either
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed a moment ago
		}
		if err != nil {
			return nil, err
		}
		if !exists(removing(dir)) {
			return keep(mark), nil
		}
		os.Remove(mark) //nolint:errcheck // it would end by itself
		if s.forgotten(removing(dir)) {
			os.Remove(removing(dir)) //nolint:errcheck // another may have been quicker
			continue
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lookEvery):
		}
	}
}

// removing is the sign that an image is about to be removed.
func removing(dir string) string { return filepath.Join(dir, "used", ".removing") }

// keep confirms a mark until it is released.
func keep(mark string) (release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	kept.Go(func() {
		tick := time.NewTicker(touchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// Writing, and not utimes, gives it the file server's time. If it fails now it
				// may not the next time.
				_ = os.WriteFile(mark, []byte("\n"), 0o644)
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		kept.Wait()
		os.Remove(mark) //nolint:errcheck // it would end by itself
	})
}

// forgotten says that a file has not been touched for so long that who made it is dead.
func (s *Store) forgotten(path string) bool {
	now, err := s.now()
	info, statErr := os.Stat(path)
	return err == nil && statErr == nil && now.Sub(info.ModTime()) > useEnds
}

// now is the time by the clock of the store's filesystem, which is the one that files'
// times are of.
func (s *Store) now() (time.Time, error) {
	f, err := os.CreateTemp(s.options.Dir, ".now-*")
	if err != nil {
		return time.Time{}, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // empty
	info, err := f.Stat()
	return info.ModTime(), errors.Join(err, f.Close())
}
