package crilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
)

var errCut = errors.New("the way is cut")

func isCut(err error) bool { return errors.Is(err, errCut) }

// cutDir is a directory the way to which is cut now and then: fails says when.
type cutDir struct {
	Dir
	fails func() bool
}

func (d cutDir) Names(ctx context.Context) ([]string, error) {
	if d.fails() {
		return nil, errCut
	}
	return d.Dir.Names(ctx)
}

func (d cutDir) Open(ctx context.Context, name string) (File, error) {
	if d.fails() {
		return nil, errCut
	}
	f, err := d.Dir.Open(ctx, name)
	return cutFile{f, d.fails}, err
}

type cutFile struct {
	File
	fails func() bool
}

// ReadAt reads the half of what it is asked for before it fails.
func (f cutFile) ReadAt(p []byte, offset int64) (int, error) {
	if !f.fails() {
		return f.File.ReadAt(p, offset)
	}
	n, err := f.File.ReadAt(p[:len(p)/2], offset)
	if err != nil {
		return n, err
	}
	return n, errCut
}

// sometimes fails every so many times, at random and at least once.
func sometimes(often int) func() bool {
	var mu sync.Mutex
	random, calls := rand.New(rand.NewPCG(3, 4)), 0
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return calls%often == 1 || random.IntN(often) == 0
	}
}

func TestAFollowerWaitsForAWayThatIsCut(t *testing.T) {
	run, lines := written(t, 100)
	run.Dir = cutDir{run.Dir, sometimes(4)}
	for sentence, o := range map[string]Options{
		"all":            {},
		"the last lines": {TailLines: ptr.To[int64](37)},
		"no line":        {TailLines: ptr.To[int64](0)},
		"with times":     {Timestamps: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			o.Passing, o.Ended = isCut, func(context.Context) bool { return true }
			synctest.Test(t, func(t *testing.T) { // the waits take no time
				var out bytes.Buffer
				require.NoError(t, run.Read(t.Context(), o, &out))
				same(t, model(lines, o), out.String())
			})
		})
	}
}

func TestACutLosesAndDoublesNothingOfWhatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	log, err := Create(path, Limits{MaxBytes: 16 << 10, MaxFiles: 1 << 20})
	require.NoError(t, err)
	run := openRun(t, path)
	var cut, ended atomic.Bool
	failed := make(chan struct{}, 1)
	run.Dir = cutDir{run.Dir, func() bool {
		if cut.Load() {
			select {
			case failed <- struct{}{}:
			default:
			}
		}
		return cut.Load()
	}}
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- run.Read(t.Context(), Options{Ended: when(&ended), Passing: isCut, LimitBytes: ptr.To[int64](1 << 40)}, &out)
	}()
	var want strings.Builder
	s := log.Stream(Stdout)
	write := func(count int) {
		for range count {
			text := fmt.Sprintf("line %d\n", want.Len())
			want.WriteString(text)
			_, _ = s.Write([]byte(text))
		}
	}
	for range 3 {
		write(1000)
		cut.Store(true)
		<-failed // the follower has met it
		write(2000)
		cut.Store(false)
	}
	require.NoError(t, s.Close())
	require.NoError(t, log.Close())
	ended.Store(true)
	require.NoError(t, <-done)
	same(t, want.String(), out.String())
}

func TestACutIsNotWaitedForWithoutNeed(t *testing.T) {
	run, _ := written(t, 5)
	run.Dir = cutDir{run.Dir, func() bool { return true }}
	never := func(context.Context) bool { return false }
	for sentence, o := range map[string]Options{
		"by who only reads what there is": {Passing: isCut},
		"by who takes it for the end":     {Ended: never},
		"if it is no cut":                 {Ended: never, Passing: func(err error) bool { return errors.Is(err, fs.ErrClosed) }},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.ErrorIs(t, run.Read(t.Context(), o, &bytes.Buffer{}), errCut)
		})
	}
	t.Run("when the client has gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		run.Dir = cutDir{run.Dir, func() bool { cancel(); return true }}
		assert.ErrorIs(t, run.Read(ctx, Options{Ended: never, Passing: isCut}, &bytes.Buffer{}), context.Canceled)
	})
	t.Run("when nobody takes what is sent on", func(t *testing.T) {
		assert.ErrorIs(t, run.Read(t.Context(), Options{Ended: never, Passing: isCut}, broken{}), errBroken)
	})
}

// vanishing is a directory whose first parts are removed after they have been listed.
type vanishing struct {
	Dir
	first int
}

func (v vanishing) Open(ctx context.Context, name string) (File, error) {
	if _, part, _ := parseName(name); part < v.first {
		return nil, fs.ErrNotExist
	}
	return v.Dir.Open(ctx, name)
}

func TestTheTailBeginsLaterWherePartsAreRemovedMeanwhile(t *testing.T) {
	run, lines := written(t, 300)
	list, err := run.parts(t.Context())
	require.NoError(t, err)
	require.Greater(t, len(list), 3)
	run.Dir = vanishing{run.Dir, list[2]}
	var out bytes.Buffer
	require.NoError(t, run.Read(t.Context(), Options{TailLines: ptr.To[int64](299)}, &out))
	assert.NotEmpty(t, out.String())
	assert.True(t, strings.HasSuffix(model(lines, Options{}), out.String()))
}
