package slurm_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/slurm"
)

func TestGPUsAreCountedOverAllTypesAndSockets(t *testing.T) {
	tests := map[string]int{
		"(null)": 0, "": 0, "gpu:8": 8, "gpu:h100:8": 8, "gpu:h100:8(S:0-1)": 8, "gpu:4(S:0,2),nic:2": 4,
		"gpu:a100:4(S:0),gpu:t4:2(S:1)": 6, "nic:2,gpu:3": 3, "mps:400": 0, "shard:h100:16,gpu:h100:2": 2, "gpu": 1,
		"gpu:h100": 1, "gpu:0": 0,
	}
	for gres, want := range tests {
		assert.Equal(t, want, slurm.GPUs(gres), gres)
	}
}

func TestANodeInSlurmrestdsWordsIsUsableUnlessItIsKeptFromJobs(t *testing.T) {
	tests := map[bool]string{
		true: "IDLE MIXED ALLOCATED IDLE+PLANNED MIXED+COMPLETING IDLE+POWERED_DOWN IDLE+CLOUD+POWERING_UP " +
			"IDLE+RESERVED IDLE+DYNAMIC_NORM idle ALLOCATED+SOMETHING_NEW",
		false: "DOWN DOWN+NOT_RESPONDING IDLE+DRAIN MIXED+DRAIN idle+DRAIN ERROR FUTURE UNKNOWN IDLE+NOT_RESPONDING " +
			"IDLE+MAINTENANCE IDLE+FAIL IDLE+INVALID_REG INVALID IDLE+POWERED_DOWN+POWER_DRAIN IDLE+BLOCKED",
	}
	for want, states := range tests {
		for _, state := range strings.Fields(states) {
			assert.Equal(t, want, slurm.NodeUsable(strings.Split(state, "+")...), state)
		}
	}
}
