package mpi_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/mpi"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a text with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update to write it")
	assert.Equal(t, string(want), got)
}

func TestHostfiles(t *testing.T) {
	hosts := []mpi.Host{
		{Name: "pi-node-0-0.pi", Slots: 4},
		{Name: "pi-node-0-1.pi", Slots: 2},
		{Name: "pi-launcher-0-0.pi"},
	}
	golden(t, "openmpi.hostfile", mpi.OpenMPIHostfile(hosts))
	golden(t, "hydra.hostfile", mpi.HydraHostfile(hosts))
}

func TestNoHostsMakeAnEmptyFile(t *testing.T) {
	assert.Empty(t, mpi.OpenMPIHostfile(nil))
	assert.Empty(t, mpi.HydraHostfile(nil))
}
