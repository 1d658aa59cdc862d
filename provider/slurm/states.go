package slurm

import (
	"slices"
	"sync"

	"github.com/gangline/gangline/provider/wlm"
)

// State is one of Slurm's words for a job's state, in the long form that squeue, sacct
// and slurmrestd share, and what it means for a gang.
type State struct {
	Name string
	// Flag marks a word that stands beside a state: squeue shows it in the state's
	// place, newer versions of slurmrestd beside it.
	Flag    bool
	Phase   wlm.Phase
	Outcome wlm.Outcome
	// Meaning is for people.
	Meaning string
}

// States is the table of job states. Flags come in the order in which squeue prefers
// them. Source: https://slurm.schedmd.com/job_state_codes.html and squeue(1).
func States() []State {
	const flag = true
	return []State{
		{"COMPLETING", flag, wlm.PhaseEnding, "", "processes are being ended, or the epilog runs"},
		{"STAGE_OUT", flag, wlm.PhaseEnding, "", "files are being copied from the burst buffer"},
		{"CONFIGURING", flag, wlm.PhaseStarting, "", "nodes are booting or being made ready"},
		{"POWER_UP_NODE", flag, wlm.PhaseStarting, "", "nodes are being switched on"},
		{"EXPEDITING", flag, wlm.PhaseQueued, "", "the job is put ahead of others"},
		// A job that is being resized, signalled or stopped has its nodes and its
		// processes.
		{"RESIZING", flag, wlm.PhaseRunning, "", "the job is changing its size"},
		{"REQUEUED", flag, wlm.PhaseQueued, "", "the job went back to the queue"},
		{"REQUEUE_FED", flag, wlm.PhaseQueued, "", "the job went back to the federation's queue"},
		{"REQUEUE_HOLD", flag, wlm.PhaseQueued, "", "the job went back to the queue and is held"},
		{"SPECIAL_EXIT", flag, wlm.PhaseQueued, "", "the job went back to the queue and is held, because of its exit code"},
		{"STOPPED", flag, wlm.PhaseRunning, "", "the processes got SIGSTOP; the nodes are kept"},
		{"REVOKED", flag, wlm.PhaseUnknown, "", "another cluster of the federation runs the job"},
		{"RESV_DEL_HOLD", flag, wlm.PhaseQueued, "", "the job is held because its reservation was deleted"},
		{"SIGNALING", flag, wlm.PhaseRunning, "", "a signal is on its way"},
		{"UPDATE_DB", flag, wlm.PhaseUnknown, "", "slurmctld is telling the accounting of a change"},
		{"LAUNCH_FAILED", flag, wlm.PhaseEnded, wlm.OutcomeFailed, "the job could not be started on its nodes"},
		{"RECONFIG_FAIL", flag, wlm.PhaseEnded, wlm.OutcomeNodeFailure, "the nodes could not be reconfigured for the job"},

		{"PENDING", !flag, wlm.PhaseQueued, "", "the job waits; its reason says for what"},
		{"RUNNING", !flag, wlm.PhaseRunning, "", "the job has its nodes"},
		{"SUSPENDED", !flag, wlm.PhaseRunning, "", "the processes are stopped and others may use the CPUs"},
		{"COMPLETED", !flag, wlm.PhaseEnded, wlm.OutcomeCompleted, "the job ended with exit code 0"},
		{"FAILED", !flag, wlm.PhaseEnded, wlm.OutcomeFailed, "the job ended with another exit code, or never began"},
		{"CANCELLED", !flag, wlm.PhaseEnded, wlm.OutcomeCancelled, "the user or an administrator cancelled the job"},
		{"TIMEOUT", !flag, wlm.PhaseEnded, wlm.OutcomeTimeout, "the job reached its time limit"},
		{"DEADLINE", !flag, wlm.PhaseEnded, wlm.OutcomeTimeout, "the job reached its deadline"},
		{"NODE_FAIL", !flag, wlm.PhaseEnded, wlm.OutcomeNodeFailure, "a node failed"},
		{"BOOT_FAIL", !flag, wlm.PhaseEnded, wlm.OutcomeNodeFailure, "a node did not boot"},
		{"PREEMPTED", !flag, wlm.PhaseEnded, wlm.OutcomePreempted, "a job with precedence took the nodes"},
		{"OUT_OF_MEMORY", !flag, wlm.PhaseEnded, wlm.OutcomeOutOfMemory, "a process was killed for want of memory"},
	}
}

// states is the table, made once: a listing asks for each of ten thousand jobs.
var states = sync.OnceValue(States)

// StateOf reads a job's state: squeue's one word, or slurmrestd's list of the state and
// its flags. It returns the word that squeue would show with its meaning. One that the
// table lacks makes the whole unknown, which changes nothing.
func StateOf(words ...string) State {
	table := states()
	shown := len(table)
	for _, word := range words {
		i := slices.IndexFunc(table, func(s State) bool { return s.Name == word })
		if i < 0 {
			return State{Name: word, Phase: wlm.PhaseUnknown}
		}
		shown = min(shown, i)
	}
	if shown == len(table) {
		return State{Phase: wlm.PhaseUnknown}
	}
	return table[shown]
}
