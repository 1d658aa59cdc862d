package watch_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/watch"
	"github.com/gangline/gangline/provider/spool"
)

// seen collects what a watcher reads, and fails as often as it is told to.
type seen struct {
	mu     sync.Mutex
	values []string
	fail   int
}

func (s *seen) changed(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return errors.New("stale file handle")
	}
	var value string
	if _, err := spool.Read(path, &value); err != nil {
		return err
	}
	s.values = append(s.values, filepath.Base(path)+"="+value)
	return nil
}

func (s *seen) eventually(t *testing.T, want ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.Equal(c, want, s.values)
	}, 10*time.Second, time.Millisecond)
}

func run(t *testing.T, s *seen, pace watch.Pace, paths ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		watch.Watcher{Paths: paths, Pace: pace, Changed: s.changed, Logger: slog.New(slog.DiscardHandler)}.Run(ctx)
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

func TestWatcher(t *testing.T) {
	polling := watch.Pace{Fast: 5 * time.Millisecond, Slow: 5 * time.Millisecond}
	for sentence, test := range map[string]func(t *testing.T, dir string, s *seen){
		"a file that is there at the start, and each that replaces it": func(t *testing.T, dir string, s *seen) {
			path := filepath.Join(dir, "a")
			require.NoError(t, spool.Write(path, "1"))
			run(t, s, polling, path)
			s.eventually(t, "a=1")
			require.NoError(t, spool.Write(path, "2"))
			s.eventually(t, "a=1", "a=2")
		},
		"a file that appears": func(t *testing.T, dir string, s *seen) {
			run(t, s, polling, filepath.Join(dir, "a"), filepath.Join(dir, "b"))
			require.NoError(t, spool.Write(filepath.Join(dir, "b"), "1"))
			s.eventually(t, "b=1")
		},
		"a file whose directory appears, without inotify's help": func(t *testing.T, dir string, s *seen) {
			path := filepath.Join(dir, "sub", "a")
			run(t, s, polling, path)
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			require.NoError(t, spool.Write(path, "1"))
			s.eventually(t, "a=1")
		},
		"inotify tells sooner than the interval": func(t *testing.T, dir string, s *seen) {
			path := filepath.Join(dir, "a")
			require.NoError(t, spool.Write(path, "1"))
			run(t, s, watch.Pace{Fast: time.Hour, Slow: time.Hour}, path)
			s.eventually(t, "a=1")
			require.NoError(t, spool.Write(path, "2"))
			s.eventually(t, "a=1", "a=2")
		},
		"what cannot be used is tried again": func(t *testing.T, dir string, s *seen) {
			path := filepath.Join(dir, "a")
			s.fail = 3
			require.NoError(t, spool.Write(path, "1"))
			run(t, s, polling, path)
			s.eventually(t, "a=1")
		},
	} {
		t.Run(sentence, func(t *testing.T) { test(t, t.TempDir(), &seen{}) })
	}
}
