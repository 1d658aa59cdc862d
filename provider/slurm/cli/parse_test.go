package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate"
)

// The inputs of these golden files are what the tools of Slurm 22.05.8 printed
// about a cluster on which jobs had met every fate that can be arranged.

func TestListOfRealJobs(t *testing.T) {
	jobs, err := parseJobs(readTestdata(t, "squeue-22.05.8.txt"), anybody)
	require.NoError(t, err)
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "%s %q of %s: %s %s\n    %s (%s)", j.ID, j.Name, j.User, j.Phase, j.Outcome, j.State, j.Reason)
		fmt.Fprintf(&b, " on %s\n", cmp.Or(j.Nodes, "nothing"))
		fmt.Fprintf(&b, "    submitted %s, expected %s, started %s, ended %s\n",
			clock(j.Submitted), clock(j.ExpectedStart), clock(j.Started), clock(j.Ended))
	}
	golden.Equal(t, "testdata/squeue-22.05.8.golden", b.String())
}

func TestInventoryOfARealCluster(t *testing.T) {
	inv, err := parseInventory(readTestdata(t, "sinfo-22.05.8.txt"))
	require.NoError(t, err)
	var b strings.Builder
	for _, p := range inv.Partitions {
		fmt.Fprintf(&b, "%s default=%v\n", p.Name, p.Default)
		for _, n := range p.Nodes {
			fmt.Fprintf(&b, "    %s: %d CPUs, %d MiB, %d GPUs, %s, %v, %s, usable=%v\n", n.Name, n.CPUs, n.MemoryMiB, n.GPUs, n.Gres, n.Features, n.State, n.Usable)
		}
	}
	golden.Equal(t, "testdata/sinfo-22.05.8.golden", b.String())
}

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

func clock(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format("2006-01-02 15:04:05")
}

// anybody has everybody's jobs in a list.
func anybody(_ int, told string) (string, bool, error) { return told, true, nil }

func record(fields ...string) string {
	return recordSeparator + strings.Join(fields, fieldSeparator) + "\n"
}

func squeueRecord(id, state string) string {
	const at = "2026-11-29T19:33:40"
	return record(id, state, "ada", "1001", "hpc1", at, at, at, "None", "pi-1")
}

func TestListRefusesWhatItDoesNotUnderstand(t *testing.T) {
	tests := map[string]struct{ out, want string }{
		"a line that is no record":         {"slurm_load_jobs error: none\n", "it starts with"},
		"a record with fields missing":     {record("1", "RUNNING"), "2 fields, not 10"},
		"a word in place of an id":         {squeueRecord("JOBID", "RUNNING"), "no job id"},
		"a user without a number":          {strings.Replace(squeueRecord("7", "RUNNING"), "1001", "ada", 1), "no user's number"},
		"an id without a component number": {squeueRecord("7+x", "RUNNING"), "no job id"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			jobs, err := parseJobs(tt.out, anybody)
			assert.ErrorContains(t, err, tt.want)
			assert.Nil(t, jobs)
		})
	}
	jobs, err := parseJobs("", anybody)
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
			jobs, err := parseJobs(out, anybody)
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

func sinfoLine(fields ...string) string { return strings.Join(fields, fieldSeparator) + "\n" }

func TestInventoryKnowsThePartitionsOwnState(t *testing.T) {
	for state, usable := range map[string]bool{"up": true, "down": false, "inactive": false, "drain": false} {
		inv, err := parseInventory(sinfoLine("short", state, "hpc1", "8", "16384", "idle", "(null)", "(null)"))
		require.NoError(t, err)
		require.Len(t, inv.Partitions, 1)
		assert.False(t, inv.Partitions[0].Default)
		assert.Equal(t, usable, inv.Partitions[0].Nodes[0].Usable, state)
	}
	inv, err := parseInventory(sinfoLine("empty", "up", "", "0", "0", "n/a", "(null)", "(null)"))
	require.NoError(t, err)
	assert.Empty(t, inv.Partitions)
}

func TestInventoryRefusesWhatItDoesNotUnderstand(t *testing.T) {
	tests := map[string]struct{ out, want string }{
		"a line with fields missing": {"hello\n", "1 fields, not 8"},
		"CPUs that are no number":    {sinfoLine("p", "up", "hpc1", "many", "1", "idle", "", ""), "no number of CPUs"},
		"memory that is no number":   {sinfoLine("p", "up", "hpc1", "1", "8G", "idle", "", ""), "no number of MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseInventory(tt.out)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestWhatIsUsedOfARealClusterIsPadded(t *testing.T) {
	line := func(fields ...string) string {
		for i := range fields {
			fields[i] = fmt.Sprintf("%-64s", fields[i])
		}
		return strings.Join(fields, fieldSeparator) + "\n"
	}
	used, err := parseUsed(line("hpc1", "6/2/0/8", "3072", "gpu:h100:2(IDX:0-1)") + line("hpc2", "0/8/0/8", "0", "gpu:h100:0(IDX:N/A)") +
		line("hpc1", "6/2/0/8", "3072", "gpu:h100:2(IDX:0-1)"))
	require.NoError(t, err)
	assert.Equal(t, map[string]translate.Resources{
		"hpc1": {CPUs: 6, MemoryMiB: 3072, GPUs: 2, Gres: "gpu:h100:2"}, "hpc2": {},
	}, used)
	for _, out := range []string{"hello\n", line("hpc1", "many", "1", ""), line("hpc1", "1/2/3/4", "N/A", "")} {
		_, err := parseUsed(out)
		assert.ErrorContains(t, err, "reading sinfo's list of what is used")
	}
}

func TestNumbersOfCPUs(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "64": 64, "1K": 1024, "1.25K": 1280, "2K": 2048} {
		n, err := parseCPUs(text)
		require.NoError(t, err)
		assert.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "K", "-1K", "NaNK", "InfK", "9e99K", "1M", "many"} {
		_, err := parseCPUs(text)
		assert.Error(t, err, text)
	}
}
