package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
)

// Whatever the files of a volume are called, nothing is made outside of it, and what is
// accepted is there with its content.
func FuzzWrite(f *testing.F) {
	for _, paths := range []string{"a\x00b/c", "../x", "..data", "/etc/passwd", "a/../../x", "a\x00a/b", "", ".", "a//b", "a/./b", "./a", "..x", "a\x00a"} {
		f.Add(paths, []byte("text"), int32(0o644))
	}
	f.Fuzz(func(t *testing.T, paths string, data []byte, mode int32) {
		root := t.TempDir()
		dir := filepath.Join(root, "in", "volume")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, "outside"), []byte("mine"), 0o600))
		var files []spool.File
		for path := range strings.SplitSeq(paths, "\x00") {
			files = append(files, spool.File{Path: path, Mode: mode | 0o400, Data: data})
		}
		err := Write(dir, files, time.Unix(1, 0))
		outside, readErr := os.ReadFile(filepath.Join(root, "outside"))
		require.NoError(t, readErr)
		assert.Equal(t, "mine", string(outside))
		var others []string
		require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasPrefix(path, dir+"/") {
				others = append(others, path)
			}
			return nil
		}))
		assert.Equal(t, []string{filepath.Join(root, "outside")}, others)
		if err != nil {
			return
		}
		for _, file := range files {
			got, err := os.ReadFile(filepath.Join(dir, file.Path))
			require.NoError(t, err)
			assert.Equal(t, string(data), string(got))
		}
		require.NoError(t, Write(dir, files, time.Unix(2, 0)), "the same once more")
	})
}

func FuzzResolve(f *testing.F) {
	for _, sub := range []string{"a", "link", "link/passwd", "../x", "/", "", "a/../..", "\x00"} {
		f.Add(sub)
	}
	dir := f.TempDir()
	require.NoError(f, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	require.NoError(f, os.Symlink("/etc", filepath.Join(dir, "link")))
	real, err := filepath.EvalSymlinks(dir)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, sub string) {
		path, err := Resolve(dir, sub)
		if err == nil {
			assert.True(t, path == real || strings.HasPrefix(path, real+"/"), path)
		}
	})
}
