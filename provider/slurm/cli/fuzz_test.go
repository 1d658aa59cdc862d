package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
)

func seed(f *testing.F, name string) string {
	f.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(f, err)
	return string(data)
}

// ours is the rule of a list of which only one user's jobs count.
func ours(uid int, told string) (string, bool, error) { return told, uid == 1001, nil }

// A job's name, its user's choice, may hold line ends and whatever else.
func FuzzJobs(f *testing.F) {
	f.Add(seed(f, "squeue-22.05.8.txt"))
	f.Add(squeueRecord("7", "RUNNING") + squeueRecord("12+0", "PENDING") + squeueRecord("12+1", "LEVITATING"))
	f.Add(record("7", "RUNNING", "ada", "1001", "n[1-3]", "N/A", "NONE", "Unknown", "None", "a\nb"+fieldSeparator+"RUNNING"))
	f.Add(record("12+9999999999999999999", "", "", "-1", "", "", "", "", "", ""))
	f.Fuzz(func(t *testing.T, out string) {
		jobs, err := parseJobs(out, ours)
		if err != nil {
			assert.Nil(t, jobs)
			return
		}
		assert.LessOrEqual(t, len(jobs), strings.Count(out, recordSeparator), "no record is two jobs")
		seen := map[string]bool{}
		for _, j := range jobs {
			assert.False(t, seen[j.ID], "one job, one entry")
			seen[j.ID] = true
			first, _, _ := strings.Cut(j.ID, "_")
			assert.True(t, isNumber(first), j.ID)
			assert.NotEmpty(t, j.Phase)
			assert.Contains(t, out, fieldSeparator+"1001"+fieldSeparator)
			if j.Phase == wlm.PhaseEnded {
				assert.NotEqual(t, wlm.OutcomeNone, j.Outcome)
			}
		}
	})
}

func FuzzHistory(f *testing.F) {
	line := strings.Join([]string{"7", "CANCELLED by 1002", "ada", "1001", "None assigned", "2026-01-02T03:04:05", "Unknown", "None", "3:0", "pi-1"}, fieldSeparator)
	f.Add(line + "\n" + line)
	f.Add(strings.Replace(line, "CANCELLED by 1002", "CANCELLED by x", 1))
	f.Fuzz(func(t *testing.T, out string) {
		who := reader{of: ours, name: func(int) string { return "" }}
		ended := map[string]wlm.Job{}
		if who.collectEnded(out, []wlm.JobRef{{Name: "pi-1"}, {Name: "pi-2", ID: "7"}}, ended) != nil {
			return
		}
		for name, j := range ended {
			assert.Equal(t, wlm.PhaseEnded, j.Phase)
			assert.Equal(t, name, j.Name)
			assert.Contains(t, []string{"pi-1", "pi-2"}, name, "nobody asked for another")
		}
	})
}

func FuzzInventory(f *testing.F) {
	f.Add(seed(f, "sinfo-22.05.8.txt"))
	f.Add(sinfoLine("p*", "up", "hpc1", "8", "16384", "idle*", "gpu:h100:8(S:0-1)", "ib,rack1"))
	f.Add(sinfoLine("", "", "x", "-1", "-1", "\u20ac~", "gpu:-1", ""))
	f.Fuzz(func(t *testing.T, out string) {
		inventory, err := parseInventory(out)
		if err != nil {
			return
		}
		nodes := 0
		for _, p := range inventory.Partitions {
			nodes += len(p.Nodes)
			for _, n := range p.Nodes {
				assert.GreaterOrEqual(t, n.GPUs, 0)
				assert.NotEmpty(t, n.Name)
			}
		}
		assert.LessOrEqual(t, nodes, strings.Count(out, "\n")+1)
	})
}

func FuzzUsed(f *testing.F) {
	f.Add(strings.Join([]string{"hpc1   ", "4/4/0/8  ", "1024 ", "gpu:h100:2(IDX:0-1)"}, fieldSeparator) + "\n")
	f.Fuzz(func(t *testing.T, out string) {
		used, err := parseUsed(out)
		if err == nil {
			assert.LessOrEqual(t, len(used), strings.Count(out, "\n")+1)
		}
	})
}

// A job's number goes into scancel's command line.
func FuzzSubmitted(f *testing.F) {
	for _, out := range []string{"123", "123;cluster", "a banner\n123\n", "", "-1", "1 --name=x", "12\x00", "\u0661"} {
		f.Add(out, "sbatch: error: Batch job submission failed: Invalid account", 1)
	}
	f.Add("", "slurm_load_jobs error: Unable to contact slurm controller", 255)
	f.Fuzz(func(t *testing.T, out, stderr string, exit int) {
		if id, err := parseJobID(out); err == nil {
			assert.Regexp(t, `^[0-9]+$`, id)
		}
		message, refused := refusal(answer{tool: "sbatch", stderr: stderr, exit: exit})
		assert.False(t, refused && exit <= 0, "a tool that was killed has refused nothing")
		assert.LessOrEqual(t, len(message), 2*len(stderr)+2)
	})
}

func FuzzLeafSwitches(f *testing.F) {
	f.Add("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-3]\nSwitchName=s1 Level=1 Switches=s0\n")
	f.Add("SwitchName=s0 Level=0 Nodes=n[0-99999999999]")
	f.Add("= = Level=0=1 SwitchName=")
	f.Fuzz(func(t *testing.T, out string) {
		leaves, err := slurm.LeafSwitches(out)
		if err != nil {
			return
		}
		for node, leaf := range leaves {
			assert.NotEmpty(t, node)
			assert.Contains(t, out, "SwitchName="+leaf)
		}
	})
}
