package agent

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TakeForeign takes a path as a stranger would: by a directory of another user
// or, where only root could make that one, by a link.
func TakeForeign(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		require.NoError(t, os.Symlink(t.TempDir(), path))
		return
	}
	require.NoError(t, os.Mkdir(path, 0o777))
	require.NoError(t, os.Chown(path, 12345, 12345))
}
