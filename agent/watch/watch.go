// Package watch tells when files that are replaced as a whole have changed. It
// asks for each file again and again, which is right on every shared filesystem;
// where inotify tells of changes sooner (they come from this node, or the
// filesystem passes them on) it asks at once.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Pace is how often files are asked for.
type Pace struct {
	// Fast is the interval after a change, Slow the one after Quiet without any.
	Fast, Slow, Quiet time.Duration
}

// DefaultPace costs a shared filesystem a request per second and file from each
// agent, and five while a gang starts or ends.
var DefaultPace = Pace{Fast: 200 * time.Millisecond, Slow: time.Second, Quiet: 30 * time.Second}

// Watcher watches files.
type Watcher struct {
	Paths []string
	Pace  Pace
	// Changed is called, by Run's goroutine, for each file that is there at the
	// start and for each that appears or is replaced later. After an error it is
	// called again for the same change.
	Changed func(path string) error
	Logger  *slog.Logger
}

// Run watches until the context ends.
func (w Watcher) Run(ctx context.Context) {
	events, stop := w.notify()
	defer stop()
	seen := map[string]identity{}
	failed := map[string]string{}
	lastChange := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-events:
		}
		for _, path := range w.Paths {
			changed, err := w.check(path, seen)
			if changed {
				lastChange = time.Now()
			}
			if err == nil {
				delete(failed, path)
			} else if failed[path] != err.Error() {
				failed[path] = err.Error() // said once, tried on
				w.Logger.Warn("a file of the spool cannot be used now", "path", path, "error", err)
			}
		}
		if time.Since(lastChange) < w.Pace.Quiet {
			timer.Reset(w.Pace.Fast)
		} else {
			timer.Reset(w.Pace.Slow)
		}
	}
}

// check calls Changed if the file is not the one seen before.
func (w Watcher) check(path string, seen map[string]identity) (bool, error) {
	id, err := identify(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if seen[path] == id {
		return false, nil
	}
	if err := w.Changed(path); err != nil {
		return false, err
	}
	seen[path] = id
	return true, nil
}

// identity changes when a file is replaced.
type identity struct {
	inode    uint64
	size     int64
	modified int64
}

// identify opens the file, because a network filesystem answers a mere stat from
// its attribute cache for seconds, and asks the server on open (close-to-open
// consistency, nfs(5)).
func identify(path string) (identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return identity{}, fmt.Errorf("looking at a file of the spool: %w", err)
	}
	defer f.Close() //nolint:errcheck // only looked at
	info, err := f.Stat()
	if err != nil {
		return identity{}, fmt.Errorf("looking at a file of the spool: %w", err)
	}
	id := identity{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		id.inode = sys.Ino
	}
	return id, nil
}

// notify returns a channel that says when to look before it is time. Without
// inotify it never does.
func (w Watcher) notify() (<-chan struct{}, func()) {
	inotify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	for _, dir := range directories(w.Paths) {
		_ = inotify.Add(dir)
	}
	ours := map[string]bool{}
	for _, path := range w.Paths {
		ours[filepath.Clean(path)] = true
	}
	look := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case e, ok := <-inotify.Events:
				if !ok {
					return
				}
				if !ours[e.Name] {
					continue
				}
				select {
				case look <- struct{}{}:
				default:
				}
			case _, ok := <-inotify.Errors:
				if !ok {
					return
				}
			}
		}
	}()
	return look, func() { _ = inotify.Close() }
}

func directories(paths []string) []string {
	var list []string
	seen := map[string]bool{}
	for _, path := range paths {
		if dir := filepath.Dir(path); !seen[dir] {
			seen[dir] = true
			list = append(list, dir)
		}
	}
	return list
}
