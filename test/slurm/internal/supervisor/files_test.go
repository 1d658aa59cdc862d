package supervisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/slurm/internal/plan"
)

func TestOnlyOurOwnFilesAreRemoved(t *testing.T) {
	write := func(t *testing.T, path string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	t.Run("in a cluster's folder a stranger's file stays", func(t *testing.T) {
		p := plan.Plan{Dir: t.TempDir()}
		require.NoError(t, p.Save())
		write(t, p.LogFile("x.log"))
		write(t, filepath.Join(p.Dir, "notes.txt"))
		require.NoError(t, Remove(p.Dir))
		assert.NoFileExists(t, p.LogFile("x.log"))
		assert.FileExists(t, filepath.Join(p.Dir, "notes.txt"))
	})
	t.Run("a folder that is no cluster's is refused", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "log", "precious"))
		require.ErrorContains(t, RemoveFiles(dir), "no dev Slurm")
		assert.FileExists(t, filepath.Join(dir, "log", "precious"))
	})
}

func TestALockIsHeldOnce(t *testing.T) {
	p := plan.Plan{Dir: t.TempDir()}
	first, err := Lock(p)
	require.NoError(t, err)
	_, err = Lock(p)
	require.ErrorIs(t, err, ErrRunning)
	first.Close()
	second, err := Lock(p)
	require.NoError(t, err)
	second.Close()
}

func TestNetworksAreClaimedOnce(t *testing.T) {
	var a, b plan.Plan
	first, err := ClaimSubnet(&a)
	require.NoError(t, err)
	defer first.Close()
	second, err := ClaimSubnet(&b)
	require.NoError(t, err)
	defer second.Close()
	assert.NotEqual(t, a.Subnet, b.Subnet)
}

func TestMissingProgramsAreNamedWithTheirPackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := FindProgram("no-such-program")
	require.ErrorContains(t, err, "no-such-program")
	_, err = FindProgram("ip")
	require.NoError(t, err, "where daemons are is searched too")
}
