package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigOfFlux(t *testing.T) {
	text := withoutKey(validConfig, "workloadManager") + "workloadManager: flux\n"
	c, err := load(t, text+"flux: {uri: 'local:///run/flux/local', library: /opt/flux/lib/libflux-core.so.2, nodeMemoryMiB: 256000, timeout: 30s}\n")
	require.NoError(t, err)
	assert.Equal(t, 30*time.Second, c.Flux.Timeout.Duration)

	const memory = "flux: {nodeMemoryMiB: 1024}\n"
	_, err = load(t, text+memory)
	require.NoError(t, err, "all else has defaults")
	for name, tt := range map[string]struct{ config, says string }{
		"without a memory":              {text, "flux.nodeMemoryMiB must be what each node has"},
		"with a path for a URI":         {text + "flux: {nodeMemoryMiB: 1, uri: /run/flux/local}\n", "flux.uri must be that of a broker on this machine"},
		"with a library without a path": {text + "flux: {nodeMemoryMiB: 1, library: libflux-core.so}\n", "flux.library must be an absolute path"},
		"with a time below 0":           {text + "flux: {nodeMemoryMiB: 1, timeout: -1s}\n", "flux.timeout must not be below 0"},
		"with a misspelling":            {text + "flux: {nodeMemory: 1}\n", "unknown field"},
		"with options of sbatch":        {text + memory + "slurm: {allowedFlags: [begin]}\n", "slurm.allowedFlags are options of sbatch"},
		"with generic resources":        {text + memory + "resources: {amd.com/gpu: 'gpu:mi300'}\n", "Flux knows no generic resources"},
		"by way of a login node":        {text + memory + "access: {mode: ssh}\n", "the mode ssh cannot be with Flux"},
		"as other users":                {text + memory + "access: {mode: setuid}\n", "run a gangline-node for each user"},
		"beside Slurm":                  {validConfig + memory, "make it flux, or take flux away"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tt.config)
			assert.ErrorContains(t, err, tt.says)
		})
	}
}
