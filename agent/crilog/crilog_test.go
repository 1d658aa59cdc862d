package crilog

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// memory holds the parts of a log that is written without files.
type memory struct {
	parts  map[int]*buffer
	err    error // of every write and creation
	writes int
}

type buffer struct {
	memory *memory
	bytes.Buffer
}

func (b *buffer) WriteAt(p []byte, at int64) (int, error) {
	b.memory.writes++
	if at < int64(b.Len()) {
		copy(b.Bytes()[at:], p) // over what is there, as a full disk allows
		return len(p), nil
	}
	if b.memory.err != nil {
		n, _ := b.Buffer.Write(p[:len(p)/2]) // as a disk that fills up
		return n, b.memory.err
	}
	return b.Buffer.Write(p)
}

func (b *buffer) Truncate(size int64) error { b.Buffer.Truncate(int(size)); return nil }
func (b *buffer) Close() error              { return nil }

func (m *memory) log(t *testing.T, limits Limits, now func() time.Time) *Log {
	t.Helper()
	m.parts = map[int]*buffer{}
	log, err := newLog(limits, now, func(part int) (file, error) {
		m.parts[part] = &buffer{memory: m}
		return m.parts[part], nil
	}, func(part int) error {
		delete(m.parts, part)
		return nil
	})
	require.NoError(t, err)
	return log
}

func fixed() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 891, time.UTC) }

func TestStreamFormatsLines(t *testing.T) {
	const head = "2026-03-04T05:06:07.000000891Z stdout "
	long := strings.Repeat("x", maxPiece)
	for name, tc := range map[string]struct {
		writes []string
		want   []string
	}{
		"a line":                               {[]string{"hello\n"}, []string{"F hello"}},
		"an empty line":                        {[]string{"\n"}, []string{"F "}},
		"two lines at once":                    {[]string{"a\nb\n"}, []string{"F a", "F b"}},
		"a line in pieces":                     {[]string{"he", "ll", "o\nw"}, []string{"F hello", "F w"}},
		"a last line without an end":           {[]string{"bye"}, []string{"F bye"}},
		"nothing":                              {nil, nil},
		"a line of exactly the limit is whole": {[]string{long + "\n"}, []string{"F " + long}},
		"a longer line is split":               {[]string{long + "yz\n"}, []string{"P " + long, "F yz"}},
		"a longer line in pieces is split":     {[]string{long[:10], long[10:], "yz", "\n"}, []string{"P " + long, "F yz"}},
		"a carriage return is kept":            {[]string{"10%\r20%\n"}, []string{"F 10%\r20%"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out memory
			log := out.log(t, Limits{}, fixed)
			s := log.Stream(Stdout)
			for _, w := range tc.writes {
				n, err := s.Write([]byte(w))
				require.NoError(t, err)
				assert.Len(t, w, n)
			}
			require.NoError(t, s.Close())
			require.NoError(t, log.Close())
			var want string
			for _, line := range tc.want {
				want += head + line + "\n"
			}
			assert.Equal(t, want, out.parts[0].String())
		})
	}
}

func TestLinesReachTheFileSoonAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out memory
		log := out.log(t, Limits{}, time.Now)
		s := log.Stream(Stderr)
		for range 100 {
			_, _ = s.Write([]byte("line\n"))
		}
		time.Sleep(flushAfter)
		synctest.Wait()
		log.mu.Lock()
		assert.Equal(t, 100, bytes.Count(out.parts[0].Bytes(), []byte("stderr F line\n")))
		assert.Equal(t, 1, out.writes)
		log.mu.Unlock()
		require.NoError(t, log.Close())
	})
}

func TestAFullDiskStopsNobodyAndTheLogTellsWhatIsMissing(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "/shared/0.log", Err: syscall.ENOSPC}
	lines := strings.Repeat("line\n", 100)
	for sentence, tc := range map[string]struct {
		freed bool
		want  string
	}{
		"in its place, once there is room again": {true, strings.Repeat("F line\n", 100) +
			"F [gangline: output is missing here, it could not be written: no space left on device]\nF last\n"},
		"over the last lines, where there never is": {false, strings.Repeat("F line\n", 88) +
			"F [gangline: output is missing here, it could not be written: no space left on device]\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out memory
			log := out.log(t, Limits{}, fixed)
			write := func(text string) {
				s := log.Stream(Stdout)
				_, err := s.Write([]byte(text))
				require.NoError(t, err)
				require.NoError(t, s.Close())
				log.mu.Lock()
				log.flush()
				log.mu.Unlock()
			}
			write(lines)
			out.err = full
			write("lost\n")
			if tc.freed {
				out.err = nil
				write("last\n")
			}
			require.ErrorContains(t, log.Close(), "no space left on device")
			got := regexp.MustCompile(`(?m)^\S+ std(out|err) `).ReplaceAllString(out.parts[0].String(), "")
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestALogOfManyShortFlushesLosesLittleToTheNote(t *testing.T) {
	var out memory
	log := out.log(t, Limits{}, fixed)
	s := log.Stream(Stdout)
	for i := range 1000 {
		_, _ = fmt.Fprintf(s, "line %d\n", i)
		log.mu.Lock()
		log.flush()
		log.mu.Unlock()
	}
	out.err = syscall.EDQUOT
	_, _ = s.Write([]byte("lost\n"))
	require.Error(t, log.Close())
	assert.Greater(t, strings.Count(out.parts[0].String(), "\n"), 970)
	assert.Contains(t, out.parts[0].String(), "output is missing")
}

func TestAFullPartIsFollowedByTheNextAndTheOldestGo(t *testing.T) {
	var out memory
	log := out.log(t, Limits{MaxBytes: 200, MaxFiles: 3}, fixed)
	s := log.Stream(Stdout)
	for i := range 40 {
		_, _ = fmt.Fprintf(s, "%02d\n", i)
		log.mu.Lock()
		log.flush()
		log.mu.Unlock()
	}
	require.NoError(t, log.Close())
	assert.ElementsMatch(t, []int{7, 8, 9}, slices.Collect(maps.Keys(out.parts)))
	for part, b := range out.parts {
		assert.LessOrEqual(t, b.Len(), 200)
		assert.True(t, strings.HasSuffix(b.String(), "\n"), part)
	}
	assert.Contains(t, out.parts[9].String(), " 39\n")
}

func TestNamesOfFiles(t *testing.T) {
	for name, want := range map[string][]int{"0.log": {0, 0}, "12.log": {12, 0}, "3.7.log": {3, 7}} {
		run, part, ok := parseName(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, []int{run, part}, name)
	}
	for _, name := range []string{"", ".log", "x.log", "1.0.log", "1.x.log", "01.log", "1.log.gz", "-", "1.2.3.log"} {
		_, _, ok := parseName(name)
		assert.False(t, ok, name)
	}
}

func TestPruneKeepsTheNewerRuns(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"0.log", "0.1.log", "1.log", "2.log", "other"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, Prune(dir, 1))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	assert.Equal(t, []string{"1.log", "2.log", "other"}, left)
	assert.NoError(t, Prune(filepath.Join(dir, "absent"), 1))
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web", "0.log")
	log, err := Create(path, Limits{MaxBytes: 100 << 10, MaxFiles: 10})
	require.NoError(t, err)
	s := log.Stream(Stdout)
	for i := range 5000 {
		_, _ = fmt.Fprintf(s, "line %d\n", i)
	}
	require.NoError(t, s.Close())
	require.NoError(t, log.Close())

	for name, tc := range map[string]struct {
		lines, bytes int
		want         string
	}{
		"bounded by lines":           {2, 1000, "line 4998\nline 4999\n"},
		"bounded by bytes":           {80, 13, "98\nline 4999\n"},
		"one line":                   {1, 1000, "line 4999\n"},
		"many lines, still by bytes": {100000, 10, "line 4999\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Tail(path, tc.lines, tc.bytes)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestTailJoinsPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	log, err := Create(path, Limits{MaxBytes: 100 << 10, MaxFiles: 10})
	require.NoError(t, err)
	s := log.Stream(Stdout)
	long := strings.Repeat("a", maxPiece) + "b"
	_, _ = s.Write([]byte("first\n" + long))
	require.NoError(t, s.Close())
	require.NoError(t, log.Close())
	got, err := Tail(path, 1, 100)
	require.NoError(t, err)
	assert.Equal(t, long[len(long)-99:]+"\n", got)
}
