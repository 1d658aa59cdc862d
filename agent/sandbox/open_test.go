package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestOpenNoLinks(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	at := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, os.MkdirAll(at("dir/deep"), 0o755))
	require.NoError(t, os.WriteFile(at("dir/file"), nil, 0o644))
	require.NoError(t, os.Symlink("dir", at("link")))
	require.NoError(t, os.Symlink("deep", at("dir/link")))
	for kernel, openat2 := range map[string]func(int, string, *unix.OpenHow) (int, error){
		"this kernel": unix.Openat2,
		"an old one":  func(int, string, *unix.OpenHow) (int, error) { return -1, unix.ENOSYS },
	} {
		for sentence, tc := range map[string]struct {
			path string
			err  error
		}{
			"a directory":       {at("dir/deep"), nil},
			"a file":            {at("dir/file"), nil},
			"a link at the end": {at("dir/link"), unix.ELOOP},
			"a link on the way": {at("link/deep"), unix.ELOOP},
			"nothing":           {at("dir/none"), unix.ENOENT},
			"a file in the way": {at("dir/file/x"), unix.ENOTDIR},
			"the root":          {"/", nil},
			"slashes too many":  {at("dir") + "//deep/", nil},
		} {
			t.Run(kernel+"/"+sentence, func(t *testing.T) {
				fd, err := openNoLinks(tc.path, openat2)
				require.ErrorIs(t, err, tc.err)
				if tc.err != nil {
					return
				}
				var got, want unix.Stat_t
				require.NoError(t, unix.Fstat(fd, &got))
				require.NoError(t, unix.Stat(tc.path, &want))
				assert.Equal(t, want.Ino, got.Ino)
				require.NoError(t, unix.Close(fd))
			})
		}
	}
}
