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

func TestWriteMakesUpForOneThatFailedInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	files := []spool.File{{Path: "new"}}
	require.NoError(t, volume.Write(dir, files, now))
	data, err := os.Readlink(filepath.Join(dir, "..data"))
	require.NoError(t, err)
	// As it is between the publication and the last step.
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))
	require.NoError(t, os.Symlink("..data/old", filepath.Join(dir, "old")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..2025"), 0o755))
	require.NoError(t, volume.Write(dir, files, now.Add(time.Minute)))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	assert.ElementsMatch(t, []string{"..data", data, "new"}, names)
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

func TestWriteLeavesAloneWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	files := []spool.File{{Path: "a", Mode: 0o600, Data: []byte("1")}, {Path: "deep/b", Mode: 0o644}}
	data := func() string {
		link, err := os.Readlink(filepath.Join(dir, "..data"))
		require.NoError(t, err)
		return link
	}
	require.NoError(t, volume.Write(dir, files, now))
	first := data()
	require.NoError(t, volume.Write(dir, []spool.File{files[1], files[0]}, now.Add(time.Minute)))
	assert.Equal(t, first, data())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o600)) // the pod itself may, as its user
	require.NoError(t, volume.Write(dir, files, now.Add(time.Minute)))
	assert.NotEqual(t, first, data())
	assert.Equal(t, "1", read(t, dir, "a"))

	for name, changed := range map[string][]spool.File{
		"another mode": {{Path: "a", Mode: 0o644, Data: []byte("1")}, files[1]},
		"one less":     {files[0]},
		"one more":     {files[0], files[1], {Path: "c"}},
	} {
		before := data()
		require.NoError(t, volume.Write(dir, changed, now.Add(time.Hour)))
		assert.NotEqual(t, before, data(), name)
		require.NoError(t, volume.Write(dir, files, now))
	}
}

func TestFreezeKeepsAPartAsItIs(t *testing.T) {
	root := t.TempDir()
	dir, kept := filepath.Join(root, "v"), filepath.Join(root, "parts", "run", "p")
	require.NoError(t, volume.Write(dir, []spool.File{{Path: "conf/a", Mode: 0o640, Data: []byte("1")}, {Path: "b", Data: []byte("b")}}, now))
	path, err := volume.Resolve(dir, "conf")
	require.NoError(t, err)
	require.NoError(t, volume.Freeze(path, kept))
	require.NoError(t, volume.Write(dir, []spool.File{{Path: "conf/a", Data: []byte("2")}}, now.Add(time.Minute)))
	require.NoError(t, volume.Freeze(filepath.Join(dir, "conf"), kept), "a second time changes nothing")
	assert.Equal(t, "1", read(t, kept, "a"))
	info, err := os.Stat(filepath.Join(kept, "a"))
	require.NoError(t, err)
	assert.EqualValues(t, 0o640, info.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(kept))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1<<20), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "d", "again")))
	require.NoError(t, os.Symlink("/usr", filepath.Join(dir, "elsewhere")))
	got, err := volume.Usage(t.Context(), dir, 0)
	require.NoError(t, err)
	assert.InDelta(t, 1<<20, got, 64<<10, "once, and nothing behind the link")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "z"), make([]byte, 4<<20), 0o600))
	got, err = volume.Usage(t.Context(), dir, 1000)
	require.NoError(t, err)
	assert.Less(t, got, int64(4<<20), "it does not count on beyond enough")
	got, err = volume.Usage(t.Context(), filepath.Join(dir, "none"), 0)
	require.NoError(t, err)
	assert.Zero(t, got)
}
