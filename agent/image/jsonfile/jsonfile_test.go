package jsonfile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/jsonfile"
)

// Others may be able to write the store as well.
func TestOnlySmallPlainFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, jsonfile.Write(at("plain"), 7))
	require.NoError(t, os.Symlink(at("plain"), at("link")))
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.WriteFile(at("huge"), []byte("7"), 0o600))
	require.NoError(t, os.Truncate(at("huge"), jsonfile.Most+1))
	var n int
	require.NoError(t, jsonfile.Read(at("plain"), &n))
	assert.Equal(t, 7, n)
	assert.ErrorIs(t, jsonfile.Read(at("absent"), &n), os.ErrNotExist)
	assert.ErrorIs(t, jsonfile.Read(at("link"), &n), syscall.ELOOP)
	assert.ErrorContains(t, jsonfile.Read(at("pipe"), &n), "no plain file")
	assert.ErrorContains(t, jsonfile.Read(at("huge"), &n), "no plain file")
	assert.ErrorContains(t, jsonfile.Read(dir, &n), "no plain file")
}
