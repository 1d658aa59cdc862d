package mpi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/test/golden"
)

func TestEnv(t *testing.T) {
	full := mpi.Paths{
		RemoteShell:   "/run/gangline/bin/ssh",
		Hostfile:      "/run/gangline/hostfile",
		HydraHostfile: "/run/gangline/hydra-hostfile",
	}
	tests := map[string]struct {
		paths  mpi.Paths
		golden string
	}{
		"a gang of several hosts":                 {full, "gang.env"},
		"a pod alone keeps to its own cores":      {mpi.Paths{RemoteShell: full.RemoteShell}, "alone.env"},
		"without Hydra's hostfile Hydra has none": {mpi.Paths{RemoteShell: full.RemoteShell, Hostfile: full.Hostfile}, "openmpi-only.env"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for _, v := range mpi.Env(test.paths) {
				got.WriteString(v.Name + "=" + v.Value + "\n")
			}
			golden.Equal(t, "testdata/"+test.golden, got.String())
		})
	}
}

func TestEnvNamesEachVariableOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range mpi.Env(mpi.Paths{RemoteShell: "/ssh", Hostfile: "/h", HydraHostfile: "/y"}) {
		assert.False(t, seen[v.Name], v.Name)
		seen[v.Name] = true
	}
}
