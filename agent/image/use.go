package image

import (
	"context"
	"errors"
	"fmt"
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
	// patience is how many looks who makes a directory gets to give it its rights.
	patience = 5
)

// use marks an image as used until release is called. First comes the mark and then the
// look whether somebody is about to remove the image; who removes does the same in the
// opposite order, so one of the two sees the other. Both are in one directory: over NFS,
// who has just changed a directory sees what others have done there.
func (s *Store) use(ctx context.Context, dir string) (release func(), _ error) {
	mark := filepath.Join(dir, "used", lease.Nonce())
	for tries := 0; ; tries++ {
		err := touch(mark)
		switch {
		case readOnly(err) && unix.Access(s.options.Dir, unix.W_OK) != nil:
			return func() {}, nil // a store that its users cannot write: they remove nothing either
		case errors.Is(err, fs.ErrNotExist):
			continue // removed a moment ago
		case errors.Is(err, fs.ErrPermission) && tries < patience:
			// Another member of the group makes the directory, and will give us rights to it.
		case err != nil:
			return nil, fmt.Errorf("marking the image as used: %w", err)
		case !exists(removing(dir)):
			// It may have been removed, with the mark, between the two.
			if exists(mark) {
				return keep(mark), nil
			}
			continue
		case s.forgotten(removing(dir)):
			os.Remove(mark)          //nolint:errcheck // it would end by itself
			os.Remove(removing(dir)) //nolint:errcheck // another may have been quicker
			continue
		default:
			os.Remove(mark) //nolint:errcheck // it would end by itself
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(s.pace.Beat):
		}
	}
}

// touch makes a mark, or confirms it. Its directory may have been removed with the image
// while the agent was stopped, and the image made anew. Writing, and not utimes, gives the
// mark the file server's time.
func touch(mark string) error {
	if err := dirs.Make(filepath.Dir(mark)); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte("\n"), 0o644)
}

// readOnly says that an error is a file's that this user cannot write.
func readOnly(err error) bool { return errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) }

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
				_ = touch(mark) // if it fails now it may not the next time
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

// stamp is the pattern of the files by which now looks at the clock.
const stamp = ".now-*"

// now is the time by the clock of the store's filesystem, which is the one that files'
// times are of.
func (s *Store) now() (time.Time, error) {
	f, err := os.CreateTemp(s.options.Dir, stamp)
	if err != nil {
		return time.Time{}, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // empty
	info, err := f.Stat()
	return info.ModTime(), errors.Join(err, f.Close())
}
