package crilog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
)

// line is what the model knows of a line that a program wrote.
type line struct {
	at           time.Time
	stream, text string
}

// model is what a reader must show of lines: the plainest way to say it.
func model(lines []line, o Options) string {
	if o.TailLines != nil {
		lines = lines[max(0, len(lines)-int(*o.TailLines)):]
	}
	var text strings.Builder
	for _, l := range lines {
		if l.at.Before(o.Since) || o.Stream != "" && o.Stream != l.stream {
			continue
		}
		if o.Timestamps {
			text.WriteString(l.at.Format(fixedTime) + " ")
		}
		text.WriteString(l.text + "\n")
	}
	all := text.String()
	if o.LimitBytes != nil {
		all = all[:min(len(all), int(*o.LimitBytes))]
	}
	return all
}

// written is a log of lines of all kinds, over many parts.
func written(t *testing.T, count int) (Run, []line) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "3.log")
	log, err := Create(path, Limits{MaxBytes: 64 << 10, MaxFiles: 1000})
	require.NoError(t, err)
	now := fixed()
	log.now = func() time.Time { return now }
	random := rand.New(rand.NewPCG(1, 2))
	streams := map[string]interface{ Write([]byte) (int, error) }{Stdout: log.Stream(Stdout), Stderr: log.Stream(Stderr)}
	var lines []line
	for i := range count {
		l := line{now, []string{Stdout, Stderr}[random.IntN(2)], fmt.Sprintf("line %d", i)}
		switch random.IntN(20) {
		case 0:
			l.text = strings.Repeat("x", maxPiece+random.IntN(3*maxPiece))
		case 1:
			l.text = ""
		case 2:
			l.text = "\x00\xff\r P F stdout"
		}
		lines = append(lines, l)
		_, _ = streams[l.stream].Write([]byte(l.text + "\n"))
		now = now.Add(time.Duration(random.IntN(1e9)))
	}
	require.NoError(t, log.Close())
	return openRun(t, path), lines
}

func openRun(t *testing.T, path string) Run {
	t.Helper()
	dir, err := os.OpenRoot(filepath.Dir(path))
	require.NoError(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	run, _, ok := parseName(filepath.Base(path))
	require.True(t, ok)
	return Run{rootDir{dir}, run}
}

func when(ended *atomic.Bool) func(context.Context) bool {
	return func(context.Context) bool { return ended.Load() }
}

func TestReadShowsWhatTheModelShows(t *testing.T) {
	run, lines := written(t, 600)
	middle := lines[300].at
	for sentence, o := range map[string]Options{
		"all":                         {},
		"no line":                     {TailLines: ptr.To[int64](0)},
		"the last line":               {TailLines: ptr.To[int64](1)},
		"the last lines":              {TailLines: ptr.To[int64](17)},
		"most lines":                  {TailLines: ptr.To[int64](599)},
		"as many as there are":        {TailLines: ptr.To[int64](600)},
		"more than there are":         {TailLines: ptr.To[int64](10000)},
		"since a time":                {Since: middle},
		"since later":                 {Since: time.Now().Add(1e6 * time.Hour)},
		"with times":                  {Timestamps: true},
		"a limit":                     {LimitBytes: ptr.To[int64](1234)},
		"one byte":                    {LimitBytes: ptr.To[int64](1)},
		"a limit that is not reached": {LimitBytes: ptr.To[int64](1 << 40)},
		"one stream":                  {Stream: Stderr},
		"much at once":                {TailLines: ptr.To[int64](400), Since: middle, Timestamps: true, LimitBytes: ptr.To[int64](99999)},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run.Read(t.Context(), o, &out))
			same(t, model(lines, o), out.String())
			o.Ended = func(context.Context) bool { return true }
			out.Reset()
			require.NoError(t, run.Read(t.Context(), o, &out), "a run that has ended is not followed")
			same(t, model(lines, o), out.String())
		})
	}
	for n := range int64(601) {
		var out bytes.Buffer
		require.NoError(t, run.Read(t.Context(), Options{TailLines: &n}, &out))
		same(t, model(lines, Options{TailLines: &n}), out.String())
	}
}

// same compares long texts without printing them.
func same(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	around := func(s string) string { return s[max(0, min(at, len(s))-40):min(len(s), at+40)] }
	t.Fatalf("differs at byte %d of %d and %d:\n%q\n%q", at, len(want), len(got), around(want), around(got))
}

func TestAFollowerLosesAndDoublesNothingOverManyParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	log, err := Create(path, Limits{MaxBytes: 4 << 10, MaxFiles: 1 << 20})
	require.NoError(t, err)
	run := openRun(t, path)
	var ended atomic.Bool
	var want strings.Builder
	go func() {
		defer ended.Store(true)
		s := log.Stream(Stdout)
		for i := range 20000 {
			text := fmt.Sprintf("line %d\n", i)
			want.WriteString(text)
			_, _ = s.Write([]byte(text))
			if i%500 == 0 {
				time.Sleep(10 * time.Millisecond) // so that the follower catches up now and then
			}
		}
		_ = s.Close()
		_ = log.Close()
	}()
	var out bytes.Buffer
	require.NoError(t, run.Read(t.Context(), Options{Ended: when(&ended)}, &out))
	same(t, want.String(), out.String())
}

func TestAFollowerThatDoesNotReadHoldsNobodyUpAndGoesOnWithWhatIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	log, err := Create(path, Limits{MaxBytes: 4 << 10, MaxFiles: 2})
	require.NoError(t, err)
	run := openRun(t, path)
	s := log.Stream(Stdout)
	write := func(i int) { _, _ = fmt.Fprintf(s, "line %d\n", i); log.mu.Lock(); log.flush(); log.mu.Unlock() }
	write(0)
	out := &stuck{free: make(chan struct{}), began: make(chan struct{})}
	var ended atomic.Bool
	done := make(chan error)
	go func() { done <- run.Read(t.Context(), Options{Ended: when(&ended)}, out) }()
	<-out.began
	for i := 1; i < 2000; i++ {
		write(i)
	}
	require.NoError(t, log.Close())
	ended.Store(true)
	close(out.free)
	require.NoError(t, <-done)
	got := out.String()
	assert.True(t, strings.HasPrefix(got, "line 0\nline 1\n"), "the part that was open is read to its end")
	assert.True(t, strings.HasSuffix(got, "line 1998\nline 1999\n"))
	assert.Less(t, strings.Count(got, "\n"), 2000)
}

// stuck is a client that reads nothing for a while.
type stuck struct {
	bytes.Buffer
	began, free chan struct{}
	once        bool
}

func (s *stuck) Write(p []byte) (int, error) {
	if !s.once {
		s.once = true
		close(s.began)
		<-s.free
	}
	return s.Buffer.Write(p)
}

func TestAFollowerEndsWithItsClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	log, err := Create(path, Limits{})
	require.NoError(t, err)
	defer log.Close() //nolint:errcheck // only read
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = openRun(t, path).Read(ctx, Options{Ended: func(context.Context) bool { return false }}, &bytes.Buffer{})
	assert.ErrorIs(t, err, context.Canceled)
	err = openRun(t, path).Read(t.Context(), Options{Ended: func(context.Context) bool { return false }}, broken{})
	assert.ErrorIs(t, err, errBroken)
}

var errBroken = errors.New("the client is gone")

type broken struct{}

func (broken) Write(p []byte) (int, error) { return len(p), nil }
func (broken) Flush() error                { return errBroken }

func TestWhatIsNoLogIsNotShown(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("2026-03-04T05:06:07Z stdout F secret\n"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "0.log")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "here"), []byte("2026-03-04T05:06:07Z stdout F here\n"), 0o600))
	require.NoError(t, os.Symlink("here", filepath.Join(dir, "1.log")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "2.log"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "3.log"),
		[]byte("{\"password\":\"x\"}\n2026-03-04T05:06:07Z stdout F good\nroot:x:0 stdout F bad\n"+strings.Repeat("y", 200000)+"\n2026-03-04T05:06:08Z stdout F end\n"), 0o600))
	for run := range 3 {
		var out bytes.Buffer
		err := openRun(t, filepath.Join(dir, FileName(run, 0))).Read(t.Context(), Options{}, &out)
		assert.Error(t, err, run)
		assert.Empty(t, out.String(), run)
	}
	var out bytes.Buffer
	require.NoError(t, openRun(t, filepath.Join(dir, "3.log")).Read(t.Context(), Options{}, &out))
	assert.Equal(t, "good\nend\n", out.String())
	err := openRun(t, filepath.Join(dir, "4.log")).Read(t.Context(), Options{}, &out)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// The file's owner may make it as large as he likes, for nothing.
func TestTheTailOfWhatIsNoLogTakesLittleMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	require.NoError(t, os.WriteFile(path, []byte("2026-03-04T05:06:07Z stdout F first\n"), 0o600))
	require.NoError(t, os.Truncate(path, 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var out bytes.Buffer
	require.NoError(t, openRun(t, path).Read(t.Context(), Options{TailLines: ptr.To[int64](1)}, &out))
	runtime.ReadMemStats(&after)
	assert.Equal(t, "first\n", out.String())
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, openRun(t, path).Read(ctx, Options{TailLines: ptr.To[int64](1)}, &out), context.Canceled)
}

func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "0.log")
	log, err := Create(path, Limits{MaxBytes: 10 << 20, MaxFiles: 100})
	require.NoError(b, err)
	s := log.Stream(Stdout)
	text := []byte(strings.Repeat("a line of some length, as programs write them\n", 1000))
	size := 0
	for size < 100<<20 {
		_, _ = s.Write(text)
		size += len(text)
	}
	require.NoError(b, log.Close())
	dir, err := os.OpenRoot(filepath.Dir(path))
	require.NoError(b, err)
	b.SetBytes(int64(size))
	for b.Loop() {
		require.NoError(b, Run{rootDir{dir}, 0}.Read(b.Context(), Options{}, &discard{}))
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
