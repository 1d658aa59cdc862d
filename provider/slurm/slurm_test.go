package slurm_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
	devslurm "github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate"
)

// agent stands in for the real one: it records what the job is given, and what
// each of its tasks is given.
const agent = `#!/bin/sh
test "$1" = launch || exit 64
cd "$2"
if test -e exit-code; then exit "$(cat exit-code)"; fi
env | sort > env
ulimit -n > nofile
groups=0; i=1
while test $i -lt "${SLURM_HET_SIZE:-1}"; do groups=$groups,$i; i=$((i+1)); done
test "${SLURM_HET_SIZE:-1}" = 1 || het=--het-group=$groups
srun --mpi=none $het sh -c 'echo "$SLURM_PROCID on $SLURMD_NODENAME with GPUs $CUDA_VISIBLE_DEVICES" >> tasks.$SLURM_PROCID'
cat tasks.* | sort -n > tasks
echo ready > ready
while ! test -e end; do sleep 0.1; done
`

// cluster is one real Slurm with a manager, as both stand in the tests.
type cluster struct {
	dev *devslurm.Cluster
	wlm.Manager
	// kind keeps apart what different managers have in the spool.
	kind  string
	spool string
	// user is whose jobs the manager sees.
	user     string
	uid, gid int
	// down matches the manager's words when slurmctld is.
	down string
	// vague are what it says where another one has Slurm's details.
	vague map[string]string
}

func (c *cluster) request(t *testing.T, name string, groups ...translate.TaskGroup) translate.Request {
	dir := filepath.Join(c.spool, "gangs", c.kind, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, c.uid, c.gid))
	return translate.Request{
		Name: name, Comment: "JobSet default/" + name, Groups: groups,
		Agent: filepath.Join(c.spool, "agent"), Dir: dir,
	}
}

func tasks(n, cpus int, memory int64, gpus int) translate.TaskGroup {
	return translate.TaskGroup{Tasks: n, Resources: translate.Resources{CPUs: cpus, MemoryMiB: memory, GPUs: gpus}}
}

// job finds a job in the manager's list.
func (c *cluster) job(t *testing.T, id string) wlm.Job {
	t.Helper()
	jobs, err := c.List(t.Context())
	require.NoError(t, err)
	i := slices.IndexFunc(jobs, func(j wlm.Job) bool { return j.ID == id })
	require.GreaterOrEqual(t, i, 0, "no job %s in %v", id, jobs)
	return jobs[i]
}

func (c *cluster) waitFor(t *testing.T, id string, phase wlm.Phase) wlm.Job {
	t.Helper()
	var job wlm.Job
	require.Eventually(t, func() bool {
		job = c.job(t, id)
		return job.Phase == phase
	}, time.Minute, 200*time.Millisecond, "job %s does not become %s", id, phase)
	return job
}

func (c *cluster) end(t *testing.T, r translate.Request, id string) wlm.Job {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, "end"), nil, 0o600))
	return c.waitFor(t, id, wlm.PhaseEnded)
}

// read waits for a file that the agent writes.
func read(t *testing.T, r translate.Request, name string) string {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(r.Dir, "ready"))
		return err == nil
	}, time.Minute, 100*time.Millisecond, "the agent of %s is not ready", r.Name)
	data, err := os.ReadFile(filepath.Join(r.Dir, name))
	require.NoError(t, err)
	return string(data)
}

func TestWithARealSlurm(t *testing.T) {
	t.Setenv("GANGLINE_TEST_SECRET", "of the provider") // must not reach a job
	dev := devslurm.ForTest(t, devslurm.Config{NodePrefix: "hpc", REST: true})
	require.NoError(t, os.WriteFile(filepath.Join(dev.SharedDir(), "agent"), []byte(agent), 0o755))
	tm := newTeam(t, dev)
	backEnds := []struct {
		name    string
		cluster *cluster
	}{{"cli", overCLI(t, tm)}, {"rest", overREST(t, dev, "unix:"+dev.RESTSocket())}}

	for _, b := range backEnds {
		c := b.cluster
		t.Run(b.name, func(t *testing.T) {
			t.Run("name and inventory", c.testInventory)
			t.Run("a gang of equal tasks", c.testEqualTasks)
			t.Run("a gang of unequal tasks", c.testUnequalTasks)
			t.Run("whole nodes", c.testExclusive)
			t.Run("all that can be wished for", c.testWishes)
			t.Run("a job that fails", c.testFailure)
			t.Run("a job that is cancelled while it waits", c.testCancelQueued)
			t.Run("a job that is held", c.testHeld)
			t.Run("refused submissions", c.testRefused)
		})
	}
	t.Run("two users", func(t *testing.T) { testTwoUsers(t, tm) })
	t.Run("slurmrestd over TCP, and another version of its API", func(t *testing.T) { testOtherWays(t, dev) })
	t.Run("no slurmrestd", func(t *testing.T) { testNoREST(t, dev, backEnds[1].cluster) })

	// Without a controller, both at a time: each question takes as long as Slurm tries.
	var survivors []func(t *testing.T)
	for _, b := range backEnds {
		survivors = append(survivors, b.cluster.survivor(t))
	}
	require.NoError(t, dev.StopController(t.Context()))
	t.Run("no controller", func(t *testing.T) {
		for _, b := range backEnds {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				b.cluster.testNoController(t)
			})
		}
		t.Run("a provider that dies while sbatch waits", func(t *testing.T) {
			t.Parallel()
			testLockOutlives(t, tm)
		})
	})
	require.NoError(t, dev.StartController(t.Context()))
	for _, survives := range survivors {
		survives(t)
	}
}

func (c *cluster) testInventory(t *testing.T) {
	name, err := c.Name(t.Context())
	require.NoError(t, err)
	assert.Regexp(t, `^slurm \d+\.\d+\.\d+`, name)

	inv, err := c.Inventory(t.Context())
	require.NoError(t, err)
	var names []string
	for _, p := range inv.Partitions {
		names = append(names, p.Name)
		assert.Equal(t, p.Name == "batch", p.Default)
		require.Len(t, p.Nodes, devslurm.DefaultNodes)
		for _, n := range p.Nodes {
			assert.Equal(t, wlm.Node{
				Name: n.Name, CPUs: devslurm.DefaultCPUs, MemoryMiB: devslurm.DefaultMemoryMB, GPUs: devslurm.DefaultGPUs,
				Gres: "gpu:h100:8", State: "idle", Usable: true,
			}, n)
		}
	}
	assert.ElementsMatch(t, []string{"batch", "high", "low", "lowc"}, names)
}

func (c *cluster) testEqualTasks(t *testing.T) {
	r := c.request(t, "equal", tasks(6, 2, 1000, 2))
	r.Partition, r.TimeLimit = "high", 90*time.Second
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)

	lines := strings.Split(strings.TrimSpace(read(t, r, "tasks")), "\n")
	require.Len(t, lines, 6)
	nodes := []string{}
	for rank, line := range lines {
		f := strings.Fields(line)
		assert.Equal(t, string(rune('0'+rank)), f[0])
		nodes = append(nodes, f[2])
	}
	assert.True(t, slices.IsSorted(nodes), "ranks follow the nodes: %v", nodes)
	assert.Len(t, slices.Compact(nodes), 2)
	for _, pair := range []string{"0 on ", "1 on ", "2 on ", "3 on "} { // four on the first node, each with its own
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, pair) })
		assert.Contains(t, lines[i], []string{"GPUs 0,1", "GPUs 2,3", "GPUs 4,5", "GPUs 6,7"}[i])
	}

	job := c.waitFor(t, id, wlm.PhaseRunning)
	assert.Equal(t, "equal", job.Name)
	assert.Equal(t, c.user, job.User)
	assert.Equal(t, "RUNNING", job.State)
	assert.NotEmpty(t, job.Nodes)
	assert.WithinDuration(t, time.Now(), job.Started, time.Minute)
	assert.WithinDuration(t, time.Now(), job.Submitted, time.Minute)
	assert.Zero(t, job.Ended)

	env := read(t, r, "env")
	assert.NotContains(t, env, "of the provider")
	assert.Contains(t, env, "SLURM_JOB_PARTITION=high\n")
	assert.NotContains(t, env, "SLURM_GET_USER_ENV", "no login shell is run")
	shown, err := c.dev.Run(t.Context(), "scontrol", "show", "job", id)
	require.NoError(t, err)
	assert.Contains(t, shown, "TimeLimit=00:02:00")
	assert.Contains(t, shown, "Comment=JobSet default/equal")
	assert.Contains(t, shown, "Requeue=0")
	assert.Contains(t, shown, "StdOut="+filepath.Join(r.Dir, "job.log"))
	assert.Contains(t, shown, "mem=6000M", "six slots of 2 CPUs and 1000 MiB")

	job = c.end(t, r, id)
	assert.Equal(t, wlm.OutcomeCompleted, job.Outcome)
	assert.WithinDuration(t, time.Now(), job.Ended, time.Minute)
	assert.FileExists(t, filepath.Join(r.Dir, "job.log"))
	assert.NoError(t, c.Cancel(t.Context(), "", id), "a job that has ended")
	assert.NoError(t, c.Cancel(t.Context(), "", "999999"), "a job that never was")
}

func (c *cluster) testUnequalTasks(t *testing.T) {
	r := c.request(t, "unequal", tasks(1, 1, 256, 0), tasks(3, 4, 512, 4))
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(read(t, r, "tasks")), "\n")
	require.Len(t, lines, 4)
	assert.Regexp(t, `^0 on \S+ with GPUs$`, strings.TrimSpace(lines[0]))
	for _, line := range lines[1:] {
		assert.Regexp(t, `GPUs (0,1,2,3|4,5,6,7)$`, line)
	}
	job := c.waitFor(t, id, wlm.PhaseRunning)
	assert.Equal(t, "hpc1,hpc[2-3]", job.Nodes)

	require.NoError(t, c.Cancel(t.Context(), "", id))
	job = c.waitFor(t, id, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeCancelled, job.Outcome)
	jobs, err := c.dev.Squeue(t.Context())
	require.NoError(t, err)
	for _, j := range jobs {
		if strings.HasPrefix(j.ID, id+"+") {
			assert.Equal(t, "CANCELLED", j.State, "component %s", j.ID)
		}
	}
}

func (c *cluster) testExclusive(t *testing.T) {
	r := c.request(t, "exclusive", tasks(2, 1, 4096, 1))
	r.Exclusive = true
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	assert.Len(t, strings.Split(strings.TrimSpace(read(t, r, "tasks")), "\n"), 2)
	shown, err := c.dev.Run(t.Context(), "scontrol", "show", "job", id)
	require.NoError(t, err)
	assert.Contains(t, shown, "NumCPUs=8")
	assert.Contains(t, shown, "mem=16G")
	assert.Equal(t, wlm.OutcomeCompleted, c.end(t, r, id).Outcome)
}

func (c *cluster) testWishes(t *testing.T) {
	r := c.request(t, "wishes", tasks(2, 1, 64, 1))
	r.Partition, r.Nice, r.MinNodes, r.MaxNodes, r.WCKey = "low", 7, 2, 2, "key" // the key is not tracked here
	r.Flags = []translate.Flag{{Name: "hint", Value: "nomultithread", HasValue: true}, {Name: "spread-job"}}
	r.Groups[0].Gres = translate.Gres("").Plus("gpu:h100", 1)
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	assert.Contains(t, read(t, r, "env"), "\nSLURM_HINT=nomultithread\n")
	shown, err := c.dev.Run(t.Context(), "scontrol", "show", "job", id)
	require.NoError(t, err)
	for _, want := range []string{"Nice=7", "Partition=low", "NumNodes=2 ", "TresPerTask=gres:gpu:h100:1", "ReqB:S:C:T=0:0:*:1", "SpreadJob=Yes"} {
		assert.Contains(t, shown, want)
	}
	assert.Equal(t, wlm.OutcomeCompleted, c.end(t, r, id).Outcome)
}

func (c *cluster) testFailure(t *testing.T) {
	r := c.request(t, "failure", tasks(1, 1, 0, 0))
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, "exit-code"), []byte("3"), 0o644))
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	job := c.waitFor(t, id, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeFailed, job.Outcome)
	assert.Equal(t, "NonZeroExitCode", job.Reason)
}

func (c *cluster) testCancelQueued(t *testing.T) {
	first := c.request(t, "first", tasks(32, 1, 0, 0))
	firstID, err := c.Submit(t.Context(), first)
	require.NoError(t, err)
	c.waitFor(t, firstID, wlm.PhaseRunning)
	secondID, err := c.Submit(t.Context(), c.request(t, "second", tasks(1, 1, 0, 0)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.job(t, secondID).Reason == "Resources" }, time.Minute, 200*time.Millisecond)
	job := c.job(t, secondID)
	assert.Equal(t, wlm.PhaseQueued, job.Phase)
	assert.Equal(t, "PENDING", job.State)
	require.NoError(t, c.Cancel(t.Context(), "", secondID))
	job = c.waitFor(t, secondID, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeCancelled, job.Outcome)
	assert.Zero(t, job.Started)
	c.end(t, first, firstID)
}

func (c *cluster) testRefused(t *testing.T) {
	tests := map[string]struct {
		change func(*translate.Request)
		want   string
	}{
		"no such partition":               {func(r *translate.Request) { r.Partition = "nope" }, "Invalid partition name specified"},
		"no such feature":                 {func(r *translate.Request) { r.Constraint = "nope" }, "Invalid feature specification"},
		"no such reservation":             {func(r *translate.Request) { r.Reservation = "nope" }, "Requested reservation is invalid"},
		"more CPUs than a node has":       {func(r *translate.Request) { r.Groups[0].CPUs = 9 }, "CPU count per node can not be satisfied"},
		"more GPUs than a node has":       {func(r *translate.Request) { r.Groups[0].GPUs = 9 }, "Requested node configuration is not available"},
		"more memory than a node has":     {func(r *translate.Request) { r.Groups[0].MemoryMiB = 1 << 20 }, "Memory specification can not be satisfied"},
		"an option in place of a value":   {func(r *translate.Request) { r.Partition = "batch --uid=1" }, "Invalid partition name specified"},
		"a component that does not exist": {func(r *translate.Request) { r.Groups = append(r.Groups, tasks(1, 9, 0, 0)) }, "CPU count per node"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := c.request(t, "refused-"+strings.ReplaceAll(name, " ", "-"), tasks(1, 1, 0, 0))
			tt.change(&r)
			_, err := c.Submit(t.Context(), r)
			var rejected *wlm.RejectedError
			require.ErrorAs(t, err, &rejected)
			want := tt.want
			if vague := c.vague[want]; vague != "" {
				want = vague
			}
			assert.Contains(t, rejected.Message, want)
			assert.NotContains(t, rejected.Message, "sbatch: ")
		})
	}
	jobs, err := c.List(t.Context())
	require.NoError(t, err)
	for _, j := range jobs {
		if strings.HasPrefix(j.Name, "refused") { // the record that Slurm keeps of some of them
			assert.Equal(t, wlm.PhaseEnded, j.Phase)
		}
	}
}

// testHeld is about a job that somebody holds while it waits.
func (c *cluster) testHeld(t *testing.T) {
	first := c.request(t, "before-held", tasks(32, 1, 0, 0))
	firstID, err := c.Submit(t.Context(), first)
	require.NoError(t, err)
	c.waitFor(t, firstID, wlm.PhaseRunning)
	id, err := c.Submit(t.Context(), c.request(t, "held", tasks(1, 1, 0, 0)))
	require.NoError(t, err)
	_, err = c.dev.Output(t.Context(), devslurm.Head, "scontrol", "hold", id)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return strings.HasPrefix(c.job(t, id).Reason, "JobHeld") }, time.Minute, 200*time.Millisecond)
	job := c.job(t, id)
	assert.Equal(t, wlm.PhaseQueued, job.Phase)
	assert.Contains(t, job.Explanation, "holds it")
	require.NoError(t, c.Cancel(t.Context(), "", id))
	c.end(t, first, firstID)
}
