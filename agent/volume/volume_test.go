package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

func TestWriteLaysFilesOutAsKubeletDoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config")
	require.NoError(t, volume.Write(dir, []spool.File{
		{Path: "a", Mode: 0o644, Data: []byte("1")},
		{Path: "deep/er/b", Mode: 0o400, Data: []byte("2")},
		{Path: "deep/c", Mode: 0o777, Data: []byte("3")},
	}, now))
	assert.Equal(t, "1", read(t, dir, "a"))
	assert.Equal(t, "2", read(t, dir, "deep", "er", "b"))

	link, err := os.Readlink(filepath.Join(dir, "a"))
	require.NoError(t, err)
	assert.Equal(t, "..data/a", link)
	link, err = os.Readlink(filepath.Join(dir, "..data"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(link, "..2026_03_04_05_06_07."), link)
	for path, want := range map[string]os.FileMode{"a": 0o644, "deep/er/b": 0o400, "deep/c": 0o777, "..data/": 0o755} {
		info, err := os.Stat(filepath.Join(dir, path))
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), path)
	}
}

func TestWriteReplacesAllFilesAtOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, volume.Write(dir, []spool.File{{Path: "old"}, {Path: "both", Data: []byte("1")}}, now))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "mount-point"), 0o755))
	require.NoError(t, volume.Write(dir, []spool.File{{Path: "both", Data: []byte("2")}, {Path: "new"}}, now.Add(time.Minute)))
	assert.Equal(t, "2", read(t, dir, "both"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..2026") {
			names = append(names, e.Name())
		}
	}
	assert.Equal(t, []string{"..data", "both", "mount-point", "new"}, names)
	assert.Len(t, entries, 5)
}

func TestWriteRefusesPathsThatLeaveTheVolume(t *testing.T) {
	for _, path := range []string{"", ".", "..", "../x", "/etc/passwd", "a/../../x", "..data", "..x"} {
		dir := t.TempDir()
		require.ErrorContains(t, volume.Write(dir, []spool.File{{Path: path}}, now), "must be relative", path)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, entries)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, volume.Write(dir, []spool.File{{Path: "conf/a", Data: []byte("1")}}, now))
	path, err := volume.Resolve(dir, "conf/a")
	require.NoError(t, err)
	assert.Equal(t, "1", read(t, path))
	assert.NotContains(t, path, "..data")

	require.NoError(t, os.Symlink("/etc", filepath.Join(dir, "out")))
	_, err = volume.Resolve(dir, "out/passwd")
	require.ErrorContains(t, err, "leaves its volume through a link")
	_, err = volume.Resolve(dir, "../x")
	require.ErrorContains(t, err, "leaves its volume")
	_, err = volume.Resolve(dir, "absent")
	require.ErrorIs(t, err, os.ErrNotExist)
}
