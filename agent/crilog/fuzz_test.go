package crilog

import (
	"bytes"
	"strings"
	"testing"

	"context"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
)

// pieces are the parts of a directory of logs, in memory.
type pieces map[string][]byte

func (m pieces) Names(context.Context) ([]string, error) {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	return names, nil
}

func (m pieces) Open(_ context.Context, name string) (File, error) {
	return pieceFile{bytes.NewReader(m[name])}, nil
}

type pieceFile struct{ *bytes.Reader }

func (pieceFile) Close() error { return nil }

// A log is a file of its user's, who may have put anything there. Whatever it is, the last
// lines are the end of all lines, and a limit cuts its beginning off.
func FuzzLog(f *testing.F) {
	const first = "2026-01-02T03:04:05.000000001Z stdout F hello\n"
	f.Add([]byte(first+"2026-01-02T03:04:06Z stderr P a\n2026-01-02T03:04:06Z stderr F b\n"), []byte(first), 2, 10)
	f.Add([]byte("rubbish\n\n2026-99-99T99:99:99Z stdout F x\n"), []byte("\x00"), 1, 1)
	f.Add([]byte("2026-01-02T03:04:05Z stdout F no end"), []byte{}, 0, 5)
	f.Add(bytes.Repeat([]byte("2026-01-02T03:04:05Z stdout P x\n"), 50), []byte("2026-01-02T03:04:05Z stdout F \n"), 3, 100)
	f.Fuzz(func(t *testing.T, one, two []byte, lines, limit int) {
		run := Run{pieces{"3.log": one, "3.1.log": two, "3.x.log": one, "4.log": two}, 3}
		read := func(o Options) string {
			var out bytes.Buffer
			require.NoError(t, run.Read(t.Context(), o, &out))
			return out.String()
		}
		all := read(Options{})
		assert.LessOrEqual(t, len(all), len(one)+len(two))
		if limit = limit & 0xffff; limit > 0 {
			assert.Equal(t, all[:min(len(all), limit)], read(Options{LimitBytes: ptr.To(int64(limit))}))
		}
		lines &= 0xff
		tail := read(Options{TailLines: ptr.To(int64(lines))})
		assert.True(t, strings.HasSuffix(all, tail))
		assert.LessOrEqual(t, strings.Count(tail, "\n"), lines)
		both := read(Options{Stream: Stdout})
		assert.LessOrEqual(t, len(both)+len(read(Options{Stream: Stderr})), len(all)+2)
		for line := range strings.Lines(read(Options{Timestamps: true})) {
			assert.True(t, isStamp([]byte(line)) || !strings.Contains(line, "Z "), line)
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, name := range []string{"0.log", "1.2.log", "01.log", "1.0.log", "-1.log", ".log", "1..log", "9999999999999999999.log", "../0.log", "1.2.3.log"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		run, part, ok := parseName(name)
		if ok {
			assert.Equal(t, name, FileName(run, part), "one name for each part")
			assert.NotContains(t, name, "/")
		}
	})
}
