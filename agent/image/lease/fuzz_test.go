package lease_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/lease"
)

// FuzzLease: a store is shared by users, who can put any file where a lease is. It is then
// held by somebody who shows no sign of life, or by nobody; whoever takes it has it alone.
func FuzzLease(f *testing.F) {
	for _, seed := range [][2]string{
		{"1", `{"holder":"h","beat":3,"note":"5 of 9 MB"}`}, {"9223372036854775807", "{}"}, {"9223372036854775806", ""}, {"-1", "x"}, {"+7", "null"}, {"007", `{"beat":1e99}`},
		{".lease-1", "\xff"}, {"2", strings.Repeat("x", 4096)}, {"1", `{"note":"` + strings.Repeat("n", 600) + `"}`}, {"99999999999999999999", "{}"},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	pace := lease.Pace{Beat: time.Millisecond, Dead: 3 * time.Millisecond}
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		dir := t.TempDir()
		at := filepath.Join(dir, "a", name)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
		if filepath.Base(at) != name || os.WriteFile(at, content, 0o600) != nil {
			return // no name of a file's
		}
		looks := 0
		l, ctx, err := lease.Acquire(t.Context(), filepath.Join(dir, "a"), "me", pace, func(holder lease.Record) bool {
			assert.LessOrEqual(t, len(holder.Holder)+len(holder.Note), len(content))
			looks++
			return looks > 20
		})
		if err != nil || l == nil {
			assert.LessOrEqual(t, looks, 21, "it is told, or given up")
			_, failed := strconv.Atoi(name)
			assert.True(t, err != nil || failed == nil, "what is no number holds nobody up")
			return
		}
		entries, err := os.ReadDir(filepath.Join(dir, "a"))
		require.NoError(t, err)
		assert.LessOrEqual(t, len(entries), 2, "no temporary file is left")
		assert.NoError(t, ctx.Err())
		l.Release()
		other, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range other {
			assert.Equal(t, "a", e.Name(), "nothing is made beside it")
		}
	})
}
