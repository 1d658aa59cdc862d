package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMakeOwnDir(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "a", "own")
	require.NoError(t, makeOwnDir(path))
	require.NoError(t, makeOwnDir(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	link := filepath.Join(parent, "link")
	require.NoError(t, os.Symlink(path, link))
	require.ErrorContains(t, makeOwnDir(link), "is not this user's own directory")
	file := filepath.Join(parent, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.ErrorContains(t, makeOwnDir(file), "is not this user's own directory")
}

func TestRemoveAllRemovesWhatAProgramLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	locked := filepath.Join(path, "locked", "deep")
	require.NoError(t, os.MkdirAll(locked, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(locked, "x"), nil, 0o400))
	require.NoError(t, os.Chmod(locked, 0o500))
	require.NoError(t, os.Chmod(filepath.Dir(locked), 0))
	require.NoError(t, removeAll(path))
	assert.NoDirExists(t, path)
}

func TestADirectoryOfSomebodyElseDoesNotKeepTheAgentFromRunning(t *testing.T) {
	base := filepath.Join(t.TempDir(), "gangline-0")
	TakeForeign(t, base)
	dir, temporary, err := ownDir(base, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	assert.True(t, temporary)
	assert.True(t, strings.HasPrefix(dir, base+"-"), dir)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestLeftovers(t *testing.T) {
	for sentence, tc := range map[string]struct {
		name    string
		prepare func(t *testing.T, dir string)
		stays   bool
	}{
		"what a dead agent left is removed": {name: "pi-1-0", prepare: func(t *testing.T, dir string) {
			lock, err := lockSlotDir(dir, "hpc1")
			require.NoError(t, err)
			require.NoError(t, lock.Close())
		}},
		"what a living agent uses stays": {name: "pi-1-0", stays: true, prepare: func(t *testing.T, dir string) {
			lock, err := lockSlotDir(dir, "hpc1")
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, lock.Close()) })
		}},
		"what an agent of another node may use stays": {name: "pi-1-0", stays: true, prepare: func(t *testing.T, dir string) {
			lock, err := lockSlotDir(dir, "hpc2")
			require.NoError(t, err)
			require.NoError(t, lock.Close())
		}},
		"what is not marked stays":           {name: "pi-1-0", stays: true},
		"what is no slot's stays":            {name: "other", stays: true},
		"a removal that was cut off goes on": {name: ".dead-pi-1-0-77"},
	} {
		t.Run(sentence, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			dir := filepath.Join(base, tc.name)
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "secret"), 0o700))
			if tc.prepare != nil {
				tc.prepare(t, dir)
			}
			Config{Runtime: base, Scratch: base, Node: "hpc1", Logger: slog.New(slog.DiscardHandler)}.RemoveLeftovers()
			if tc.stays {
				assert.DirExists(t, filepath.Join(dir, "secret"))
				return
			}
			left, err := os.ReadDir(base)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}
