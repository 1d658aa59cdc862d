package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Between the making of a directory and the giving of its mode another user may have put a
// link in its place.
func TestAModeIsNotGivenThroughALink(t *testing.T) {
	private, link := t.TempDir(), filepath.Join(t.TempDir(), "claim")
	require.NoError(t, os.Chmod(private, 0o700))
	require.NoError(t, os.Symlink(private, link))
	require.Error(t, giveMode(link, 0o777))
	info, err := os.Stat(private)
	require.NoError(t, err)
	assert.EqualValues(t, 0o700, info.Mode().Perm())
}
