package mpi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/test/golden"
)

func TestHostfiles(t *testing.T) {
	hosts := []mpi.Host{
		{Name: "pi-node-0-0.pi", Slots: 4},
		{Name: "pi-node-0-1.pi", Slots: 2},
		{Name: "pi-launcher-0-0.pi"},
	}
	golden.Equal(t, "testdata/openmpi.hostfile", mpi.OpenMPIHostfile(hosts))
	golden.Equal(t, "testdata/hydra.hostfile", mpi.HydraHostfile(hosts))
}

func TestNoHostsMakeAnEmptyFile(t *testing.T) {
	assert.Empty(t, mpi.OpenMPIHostfile(nil))
	assert.Empty(t, mpi.HydraHostfile(nil))
}
