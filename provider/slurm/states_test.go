package slurm_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
)

func TestEveryJobStateHasAPlace(t *testing.T) {
	tests := map[wlm.Phase]map[wlm.Outcome]string{
		wlm.PhaseQueued:   {"": "PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT EXPEDITING"},
		wlm.PhaseStarting: {"": "CONFIGURING POWER_UP_NODE"},
		wlm.PhaseRunning:  {"": "RUNNING SUSPENDED STOPPED SIGNALING RESIZING"},
		wlm.PhaseEnding:   {"": "COMPLETING STAGE_OUT"},
		wlm.PhaseUnknown:  {"": "REVOKED UPDATE_DB SOMETHING_NEW"},
		wlm.PhaseEnded: {
			wlm.OutcomeCompleted:   "COMPLETED",
			wlm.OutcomeFailed:      "FAILED LAUNCH_FAILED",
			wlm.OutcomeCancelled:   "CANCELLED",
			wlm.OutcomeTimeout:     "TIMEOUT DEADLINE",
			wlm.OutcomeNodeFailure: "NODE_FAIL BOOT_FAIL RECONFIG_FAIL",
			wlm.OutcomePreempted:   "PREEMPTED",
			wlm.OutcomeOutOfMemory: "OUT_OF_MEMORY",
		},
	}
	for wantPhase, outcomes := range tests {
		for wantOutcome, states := range outcomes {
			for _, state := range strings.Fields(states) {
				got := slurm.StateOf(state)
				assert.Equal(t, wantPhase, got.Phase, state)
				assert.Equal(t, wantOutcome, got.Outcome, state)
				assert.Equal(t, state, got.Name)
			}
		}
	}
}

// All states and flags that slurmrestd's OpenAPI documents of v0.0.41 to v0.0.45 list
// (JOB_STATE); older versions have no others.
const allStates = "PENDING RUNNING SUSPENDED COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE " +
	"OUT_OF_MEMORY LAUNCH_FAILED UPDATE_DB REQUEUED REQUEUE_HOLD SPECIAL_EXIT RESIZING CONFIGURING COMPLETING STOPPED " +
	"RECONFIG_FAIL POWER_UP_NODE REVOKED REQUEUE_FED RESV_DEL_HOLD SIGNALING STAGE_OUT EXPEDITING"

func TestEveryStateOfSlurmsHasARow(t *testing.T) {
	var rows []string
	for _, s := range slurm.States() {
		rows = append(rows, s.Name)
		assert.NotEmpty(t, s.Meaning, s.Name)
	}
	assert.ElementsMatch(t, strings.Fields(allStates), rows)
}

func TestAStateWithItsFlagsReadsAsSqueueShowsIt(t *testing.T) {
	tests := map[string]struct {
		words   string
		shown   string
		phase   wlm.Phase
		outcome wlm.Outcome
	}{
		"a state alone":                        {"RUNNING", "RUNNING", wlm.PhaseRunning, ""},
		"one that has ended but not quite":     {"FAILED COMPLETING", "COMPLETING", wlm.PhaseEnding, ""},
		"one whose nodes boot":                 {"RUNNING CONFIGURING", "CONFIGURING", wlm.PhaseStarting, ""},
		"one that went back and is held":       {"PENDING REQUEUE_HOLD SPECIAL_EXIT", "REQUEUE_HOLD", wlm.PhaseQueued, ""},
		"the order does not matter":            {"COMPLETING CANCELLED", "COMPLETING", wlm.PhaseEnding, ""},
		"a flag that is not known":             {"COMPLETED LEVITATING", "LEVITATING", wlm.PhaseUnknown, ""},
		"a state that is not known":            {"LEVITATING", "LEVITATING", wlm.PhaseUnknown, ""},
		"nothing":                              {"", "", wlm.PhaseUnknown, ""},
		"one that another cluster has revoked": {"CANCELLED REVOKED", "REVOKED", wlm.PhaseUnknown, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := slurm.StateOf(strings.Fields(tt.words)...)
			assert.Equal(t, tt.shown, got.Name)
			assert.Equal(t, tt.phase, got.Phase)
			assert.Equal(t, tt.outcome, got.Outcome)
		})
	}
}
