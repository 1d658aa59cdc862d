package main

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBench is the short form of make bench: that it measures, not how fast anything is.
func TestBench(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	b := newBench()
	b.name, b.root, b.rounds, b.most = "benchshort", root, 1, 20
	b.execRounds, b.window, b.settle = 2, 2*time.Second, time.Second
	chosen, err := choose([]string{"start", "exec", "load"})
	require.NoError(t, err)
	require.NoError(t, b.run(t.Context(), chosen))
	var table bytes.Buffer
	require.NoError(t, b.report.print(&table))
	t.Log("\n" + table.String())
	measured := map[string]figure{}
	for _, f := range b.report.Figures {
		measured[f.Measurement+": "+f.What] = f
	}
	for _, what := range []string{
		"start: gang of 4 pods, 5 CPUs and 2 GPUs each: all run (bare: sbatch + srun)",
		"exec: kubectl exec POD -- true (bare: srun --overlap true)",
	} {
		f := measured[what]
		for _, values := range [][]float64{f.Bare, f.Ours, f.Ratio} {
			require.NotEmpty(t, values, what)
			assert.NotContains(t, values, 0., what)
		}
	}
	const idle, busy = "load, 0 running pods: ", "load, 20 running pods in gangs of 10: "
	for _, what := range []string{
		idle + "RPCs to slurmctld a minute (sdiag)", idle + "memory of gangline-node (RSS)",
		busy + "RPCs to slurmctld a minute (sdiag)", busy + "memory of gangline-node (RSS)",
		busy + "memory of the largest agent (RSS)", busy + "  of which it shares with no other process",
		busy + "a process's end is in its pod's status after, median", busy + "a process's end is in its pod's status after, 99 %",
	} {
		require.NotEmpty(t, measured[what].Ours, what)
		assert.Positive(t, median(measured[what].Ours), what)
	}
	assert.Len(t, measured[busy+"RPCs to slurmctld a minute (sdiag)"].Ours, windows)
}
