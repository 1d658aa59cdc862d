package slurm

import "github.com/gangline/gangline/provider/wlm"

// jobPhase is the table of Slurm's job states, flags included, as squeue prints
// them in their long form. Source: https://slurm.schedmd.com/job_state_codes.html.
// squeue prints one word: a flag if there is one, the state otherwise.
func jobPhase(state string) (wlm.Phase, wlm.Outcome) {
	switch state {
	case "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "EXPEDITING":
		return wlm.PhaseQueued, wlm.OutcomeNone
	case "CONFIGURING", "POWER_UP_NODE":
		return wlm.PhaseStarting, wlm.OutcomeNone
	// A job that is suspended or stopped still has its nodes and its processes.
	case "RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING":
		return wlm.PhaseRunning, wlm.OutcomeNone
	case "COMPLETING", "STAGE_OUT":
		return wlm.PhaseEnding, wlm.OutcomeNone
	case "COMPLETED":
		return wlm.PhaseEnded, wlm.OutcomeCompleted
	case "FAILED", "LAUNCH_FAILED":
		return wlm.PhaseEnded, wlm.OutcomeFailed
	case "CANCELLED":
		return wlm.PhaseEnded, wlm.OutcomeCancelled
	case "TIMEOUT", "DEADLINE":
		return wlm.PhaseEnded, wlm.OutcomeTimeout
	case "NODE_FAIL", "BOOT_FAIL", "RECONFIG_FAIL":
		return wlm.PhaseEnded, wlm.OutcomeNodeFailure
	case "PREEMPTED":
		return wlm.PhaseEnded, wlm.OutcomePreempted
	case "OUT_OF_MEMORY":
		return wlm.PhaseEnded, wlm.OutcomeOutOfMemory
	// REVOKED and UPDATE_DB say nothing about where the job stands.
	default:
		return wlm.PhaseUnknown, wlm.OutcomeNone
	}
}

// nodeUsable is the table of Slurm's node states, in sinfo's long form without
// suffix, that keep jobs away. Any other, known or not, is one that passes.
// Source: sinfo(1), NODE STATE CODES.
func nodeUsable(state string) bool {
	switch state {
	case "down", "drained", "draining", "drain", "fail", "failing", "error", "future", "inval", "maint", "unknown",
		"no_respond", "perfctrs":
		return false
	default:
		return true
	}
}

// suffixUsable tells the same of the suffixes of a node's state: '*' does not
// respond, '$' is in a maintenance reservation. The others are about power and
// plans ("~#!%@^-+"): such a node can be had, if not at once.
func suffixUsable(suffix rune) bool { return suffix != '*' && suffix != '$' }
