package slurm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLeafSwitches(t *testing.T) {
	leaves, err := LeafSwitches("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=hpc[1-2]\n" +
		"SwitchName=s1 Level=0 LinkSpeed=1 Nodes=hpc3\nSwitchName=top Level=1 LinkSpeed=1 Nodes=hpc[1-3] Switches=s[0-1]\n")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"hpc1": "s0", "hpc2": "s0", "hpc3": "s1"}, leaves)
	none, err := LeafSwitches("")
	require.NoError(t, err)
	assert.Empty(t, none)
}
