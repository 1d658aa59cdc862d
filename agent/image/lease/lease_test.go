package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/lease"
)

// The living may be slow on a machine with much to do; only the dead must be so quickly.
var (
	patient = lease.Pace{Beat: 10 * time.Millisecond, Dead: time.Minute}
	hasty   = lease.Pace{Beat: 10 * time.Millisecond, Dead: 300 * time.Millisecond}
)

func forever(lease.Record) bool { return false }

func acquire(t *testing.T, dir string, wait lease.Wait) (*lease.Lease, context.Context) {
	t.Helper()
	l, ctx, err := lease.Acquire(t.Context(), dir, "me", patient, wait)
	require.NoError(t, err)
	return l, ctx
}

func TestOnlyOneHoldsALease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	var holding, most, times atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			l, _, err := lease.Acquire(t.Context(), dir, "me", patient, forever)
			if !assert.NoError(t, err) {
				return
			}
			if n := holding.Add(1); n > most.Load() {
				most.Store(n)
			}
			times.Add(1)
			holding.Add(-1)
			l.Release()
		})
	}
	all.Wait()
	assert.Equal(t, int32(1), most.Load())
	assert.Equal(t, int32(8), times.Load())
	assert.NoDirExists(t, dir, "nothing is left")
}

func TestWhoWaitsHearsHowFarItIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	held, _ := acquire(t, dir, forever)
	held.Note("half of it " + strings.Repeat("and so on ", 100))
	l, _ := acquire(t, dir, func(r lease.Record) bool {
		return r.Holder == "me" && strings.HasPrefix(r.Note, "half of it")
	})
	assert.Nil(t, l, "and may have enough")
	held.Release()
}

func TestADeadHoldersLeaseIsTakenOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "7"), []byte(`{"holder":"dead","beat":3}`), 0o600))
	l, ctx, err := lease.Acquire(t.Context(), dir, "me", hasty, forever)
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "8", entries[0].Name())
	l.Release()
	assert.NoDirExists(t, dir)
}

func TestAHolderThatWasAsleepSeesThatItHoldsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	asleep, ctx := acquire(t, dir, forever)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "2"), []byte(`{}`), 0o600))
	<-ctx.Done()
	assert.ErrorIs(t, context.Cause(ctx), lease.ErrLost)
	require.NoError(t, os.Remove(filepath.Join(dir, "1")))
	asleep.Release()
	assert.FileExists(t, filepath.Join(dir, "2"), "another's lease is not released")
}

func TestAcquiringEndsWithItsContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	held, _ := acquire(t, dir, forever)
	defer held.Release()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, _, err := lease.Acquire(ctx, dir, "other", patient, func(lease.Record) bool {
		cancel(enough)
		return false
	})
	assert.ErrorIs(t, err, enough)
}

// Others may be able to write the directory as well.
func TestWhatIsNoLeaseIsNotWaitedFor(t *testing.T) {
	for sentence, tc := range map[string]struct {
		put   func(dir string) error
		fails string
	}{
		"a pipe": {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "1"), 0o600) }, "no plain file"},
		"a link": {func(dir string) error { return os.Symlink("/dev/zero", filepath.Join(dir, "1")) }, "too many levels"},
		"a huge one": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "1"), nil, 0o600), os.Truncate(filepath.Join(dir, "1"), 1<<30))
		}, "no plain file"},
		"a number too high": {func(dir string) error { return os.WriteFile(filepath.Join(dir, fmt.Sprint(math.MaxInt)), nil, 0o600) }, "remove it"},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, tc.put(dir))
			looks := 0
			l, _, err := lease.Acquire(t.Context(), dir, "me", lease.Pace{Beat: time.Millisecond, Dead: 10 * time.Millisecond}, func(lease.Record) bool {
				looks++
				return looks > 1000
			})
			assert.ErrorContains(t, err, tc.fails)
			assert.Nil(t, l)
		})
	}
}
