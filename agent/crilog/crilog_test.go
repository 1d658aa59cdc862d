package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type buffer struct {
	bytes.Buffer
	writes int
	err    error
}

func (b *buffer) Write(p []byte) (int, error) {
	b.writes++
	if b.err != nil {
		return 0, b.err
	}
	return b.Buffer.Write(p)
}
func (b *buffer) Close() error { return nil }

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
			var out buffer
			log := newLog(&out, fixed)
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
			assert.Equal(t, want, out.String())
		})
	}
}

func TestLinesReachTheFileSoonAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		log := newLog(&out, time.Now)
		s := log.Stream(Stderr)
		for range 100 {
			_, _ = s.Write([]byte("line\n"))
		}
		time.Sleep(flushAfter)
		synctest.Wait()
		log.mu.Lock()
		assert.Equal(t, 100, bytes.Count(out.Bytes(), []byte("stderr F line\n")))
		assert.Equal(t, 1, out.writes)
		log.mu.Unlock()
		require.NoError(t, log.Close())
	})
}

func TestAFullDiskIsToldAtTheEndAndStopsNobody(t *testing.T) {
	out := buffer{err: errors.New("no space left on device")}
	log := newLog(&out, fixed)
	s := log.Stream(Stdout)
	_, err := s.Write([]byte("x\n"))
	require.NoError(t, err)
	require.ErrorContains(t, log.Close(), "no space left on device")
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web", "0.log")
	log, err := Create(path)
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
	log, err := Create(path)
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
