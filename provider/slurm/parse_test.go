package slurm

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The inputs of these golden files are what the tools of Slurm 22.05.8 printed
// about a cluster on which jobs had met every fate that can be arranged.

func TestListOfRealJobs(t *testing.T) {
	jobs, err := parseJobs(readTestdata(t, "squeue-22.05.8.txt"))
	require.NoError(t, err)
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "%s %q of %s: %s %s\n    %s (%s)", j.ID, j.Name, j.User, j.Phase, j.Outcome, j.State, j.Reason)
		fmt.Fprintf(&b, " on %s\n", cmp.Or(j.Nodes, "nothing"))
		fmt.Fprintf(&b, "    submitted %s, expected %s, started %s, ended %s\n",
			clock(j.Submitted), clock(j.ExpectedStart), clock(j.Started), clock(j.Ended))
	}
	compareGolden(t, "squeue-22.05.8.golden", b.String())
}

func TestInventoryOfARealCluster(t *testing.T) {
	inv, err := parseInventory(readTestdata(t, "sinfo-22.05.8.txt"))
	require.NoError(t, err)
	var b strings.Builder
	for _, p := range inv.Partitions {
		fmt.Fprintf(&b, "%s default=%v\n", p.Name, p.Default)
		for _, n := range p.Nodes {
			fmt.Fprintf(&b, "    %s: %d CPUs, %d MiB, %d GPUs, %s, usable=%v\n", n.Name, n.CPUs, n.MemoryMiB, n.GPUs, n.State, n.Usable)
		}
	}
	compareGolden(t, "sinfo-22.05.8.golden", b.String())
}

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	assert.Equal(t, readTestdata(t, name), got)
}

func clock(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format("2006-01-02 15:04:05")
}

func record(fields ...string) string {
	return recordSeparator + strings.Join(fields, fieldSeparator) + "\n"
}

func squeueRecord(id, state string) string {
	const at = "2026-11-29T19:33:40"
	return record(id, state, "ada", "hpc1", at, at, at, "None", "pi-1")
}

func TestListRefusesWhatItDoesNotUnderstand(t *testing.T) {
	tests := map[string]struct{ out, want string }{
		"a line that is no record":         {"slurm_load_jobs error: none\n", "it starts with"},
		"a record with fields missing":     {record("1", "RUNNING"), "2 fields, not 9"},
		"a word in place of an id":         {squeueRecord("JOBID", "RUNNING"), "no job id"},
		"an id without a component number": {squeueRecord("7+x", "RUNNING"), "no job id"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			jobs, err := parseJobs(tt.out)
			assert.ErrorContains(t, err, tt.want)
			assert.Nil(t, jobs)
		})
	}
	jobs, err := parseJobs("")
	require.NoError(t, err)
	assert.Empty(t, jobs)
}

func TestAHeterogeneousJobIsOneJob(t *testing.T) {
	tests := map[string]struct {
		states  []string
		phase   wlm.Phase
		outcome wlm.Outcome
		shown   string
	}{
		"all wait":                             {[]string{"PENDING", "PENDING"}, wlm.PhaseQueued, "", "PENDING"},
		"the leader runs before the others":    {[]string{"RUNNING", "PENDING"}, wlm.PhaseStarting, "", "RUNNING"},
		"another component's nodes boot":       {[]string{"RUNNING", "CONFIGURING"}, wlm.PhaseStarting, "", "CONFIGURING"},
		"all run":                              {[]string{"RUNNING", "RUNNING", "RUNNING"}, wlm.PhaseRunning, "", "RUNNING"},
		"one has ended, the leader has not":    {[]string{"COMPLETING", "CANCELLED"}, wlm.PhaseEnding, "", "COMPLETING"},
		"the leader has ended, another not":    {[]string{"FAILED", "COMPLETING"}, wlm.PhaseEnding, "", "COMPLETING"},
		"one has ended, the other still runs":  {[]string{"RUNNING", "NODE_FAIL"}, wlm.PhaseEnding, "", "RUNNING"},
		"one is in a state nobody knows":       {[]string{"RUNNING", "LEVITATING"}, wlm.PhaseUnknown, "", "LEVITATING"},
		"all completed":                        {[]string{"COMPLETED", "COMPLETED"}, wlm.PhaseEnded, wlm.OutcomeCompleted, "COMPLETED"},
		"the others were ended by the success": {[]string{"COMPLETED", "CANCELLED"}, wlm.PhaseEnded, wlm.OutcomeCompleted, "COMPLETED"},
		"a node failure explains the rest":     {[]string{"CANCELLED", "NODE_FAIL"}, wlm.PhaseEnded, wlm.OutcomeNodeFailure, "NODE_FAIL"},
		"the cause outranks the leader's word": {[]string{"FAILED", "OUT_OF_MEMORY"}, wlm.PhaseEnded, wlm.OutcomeOutOfMemory, "OUT_OF_MEMORY"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out string
			for offset, state := range tt.states {
				out = squeueRecord(fmt.Sprintf("12+%d", offset), state) + out // the order is Slurm's to choose
			}
			jobs, err := parseJobs(out)
			require.NoError(t, err)
			require.Len(t, jobs, 1)
			assert.Equal(t, "12", jobs[0].ID)
			assert.Equal(t, tt.phase, jobs[0].Phase)
			assert.Equal(t, tt.outcome, jobs[0].Outcome)
			assert.Equal(t, tt.shown, jobs[0].State)
			assert.Equal(t, tt.phase == wlm.PhaseEnded, !jobs[0].Ended.IsZero())
		})
	}
}

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
				phase, outcome := jobPhase(state)
				assert.Equal(t, wantPhase, phase, state)
				assert.Equal(t, wantOutcome, outcome, state)
			}
		}
	}
}

func TestANodeIsUsableUnlessItIsKeptFromJobs(t *testing.T) {
	tests := map[bool]string{
		true: "idle idle~ idle# idle% idle! idle- idle+ mixed mixed- allocated allocated+ completing planned reserved " +
			"powered_down powering_down~ powering_up# power_down! reboot_requested@ reboot_issued^ something_new",
		false: "down down* down~ drained drained* draining draining@ fail fail* failing error future inval maint maint* " +
			"idle* allocated* idle$ mixed$ unknown unknown* idle~* perfctrs",
	}
	for want, states := range tests {
		for _, state := range strings.Fields(states) {
			node, err := parseNode("hpc1", "8", "16384", state, "(null)")
			require.NoError(t, err)
			assert.Equal(t, want, node.Usable, state)
			assert.Equal(t, state, node.State)
		}
	}
}

func TestGPUsAreCountedOverAllTypesAndSockets(t *testing.T) {
	tests := map[string]int{
		"(null)": 0, "": 0, "gpu:8": 8, "gpu:h100:8": 8, "gpu:h100:8(S:0-1)": 8, "gpu:4(S:0,2),nic:2": 4,
		"gpu:a100:4(S:0),gpu:t4:2(S:1)": 6, "nic:2,gpu:3": 3, "mps:400": 0, "shard:h100:16,gpu:h100:2": 2, "gpu": 1,
		"gpu:h100": 1, "gpu:0": 0,
	}
	for gres, want := range tests {
		assert.Equal(t, want, gpus(gres), gres)
	}
}

func sinfoLine(fields ...string) string { return strings.Join(fields, fieldSeparator) + "\n" }

func TestInventoryKnowsThePartitionsOwnState(t *testing.T) {
	for state, usable := range map[string]bool{"up": true, "down": false, "inactive": false, "drain": false} {
		inv, err := parseInventory(sinfoLine("short", state, "hpc1", "8", "16384", "idle", "(null)"))
		require.NoError(t, err)
		require.Len(t, inv.Partitions, 1)
		assert.False(t, inv.Partitions[0].Default)
		assert.Equal(t, usable, inv.Partitions[0].Nodes[0].Usable, state)
	}
	inv, err := parseInventory(sinfoLine("empty", "up", "", "0", "0", "n/a", "(null)"))
	require.NoError(t, err)
	assert.Empty(t, inv.Partitions)
}

func TestInventoryRefusesWhatItDoesNotUnderstand(t *testing.T) {
	tests := map[string]struct{ out, want string }{
		"a line with fields missing": {"hello\n", "1 fields, not 7"},
		"CPUs that are no number":    {sinfoLine("p", "up", "hpc1", "many", "1", "idle", ""), "no number of CPUs"},
		"memory that is no number":   {sinfoLine("p", "up", "hpc1", "1", "8G", "idle", ""), "no number of MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseInventory(tt.out)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}
