package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// fakeAgent gets ready for what the file "mode" says, writes down that it was started,
// and runs until there is a file "release".
const fakeAgent = `#!/bin/sh
test "$1" = serve || exit 64
cd "$2" || exit 65
env | sort > "env.$GANGLINE_TASK.new" && mv "env.$GANGLINE_TASK.new" "env.$GANGLINE_TASK"
case $(cat mode 2>/dev/null) in
kind) trap 'echo "$GANGLINE_TASK" >> terminated; exit 1' TERM ;;
stubborn) trap '' TERM; setsid sleep 1000 & escaped=$!; echo "$escaped" >> escaped ;;
esac
echo "$GANGLINE_TASK" >> started
while ! test -e release && ! test -e "exit.$GANGLINE_TASK"; do sleep 0.02; done
test -z "$escaped" || kill -KILL "$escaped"
exit "$(cat "exit.$GANGLINE_TASK" 2>/dev/null || echo 0)"
`

func TestAGangRunsOnItsNodesToItsEnd(t *testing.T) {
	t.Setenv("GANGLINE_TEST_SECRET", "of the provider")
	c := smallCluster(t, func(c *Config) { c.Env = []string{"GANGLINE_RUNTIME_DIR=/run/x"} })
	r := c.request(t, "gang", group(3, 2, 1024, 2))
	id := c.submit(t, r)
	job := c.waitFor(t, id, wlm.PhaseRunning)
	assert.Equal(t, "n1,n2", job.Nodes)
	assert.Equal(t, "RUNNING", job.State)
	assert.Equal(t, "gang", job.Name)
	assert.NotZero(t, job.Submitted)
	assert.NotZero(t, job.Started)

	for task, want := range []string{
		"CUDA_VISIBLE_DEVICES=0,1\nGANGLINE_ADDRESS=127.0.1.1\nGANGLINE_JOB_ID=1\nGANGLINE_NODE=n1\nGANGLINE_RUNTIME_DIR=/run/x\nGANGLINE_TASK=0\nGANGLINE_WLM=local\n",
		"CUDA_VISIBLE_DEVICES=2,3\nGANGLINE_ADDRESS=127.0.1.1\nGANGLINE_JOB_ID=1\nGANGLINE_NODE=n1\nGANGLINE_RUNTIME_DIR=/run/x\nGANGLINE_TASK=1\nGANGLINE_WLM=local\n",
		"CUDA_VISIBLE_DEVICES=0,1\nGANGLINE_ADDRESS=127.0.2.1\nGANGLINE_JOB_ID=1\nGANGLINE_NODE=n2\nGANGLINE_RUNTIME_DIR=/run/x\nGANGLINE_TASK=2\nGANGLINE_WLM=local\n",
	} {
		got := env(t, r, task)
		assert.Contains(t, got, want)
		assert.NotContains(t, got, "of the provider")
	}
	var claim spool.Claim
	_, err := spool.Read(spool.Dir(r.Dir).Claim(), &claim)
	require.NoError(t, err)
	assert.Equal(t, id, claim.JobID)

	write(t, r, "release", "")
	job = c.waitFor(t, id, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeCompleted, job.Outcome)
	assert.Equal(t, "COMPLETED", job.State)
	assert.NotZero(t, job.Ended)
	assert.Zero(t, result(t, r).ExitCode)
	assert.NoError(t, c.Cancel(t.Context(), "", id), "a job that has ended")
	assert.NoError(t, c.Cancel(t.Context(), "", "999"), "a job that never was")
	assert.Equal(t, wlm.OutcomeCompleted, c.job(t, id).Outcome)
}

func TestTheFirstInTheQueueIsNotPassed(t *testing.T) {
	c := smallCluster(t)
	running := c.request(t, "running", group(1, 3, 0, 0))
	large := c.request(t, "large", group(2, 4, 0, 0))
	small := c.request(t, "small", group(1, 1, 0, 0))
	runningID := c.submit(t, running)
	c.waitFor(t, runningID, wlm.PhaseRunning)
	largeID, smallID := c.submit(t, large), c.submit(t, small)
	env(t, running, 0) // the scheduler has looked at the queue since
	assert.Equal(t, "Resources", c.job(t, largeID).Reason)
	assert.Equal(t, "PENDING", c.job(t, largeID).State)
	assert.Equal(t, "Priority", c.job(t, smallID).Reason, "there is room for it, but it is not its turn")

	inv, err := c.Inventory(t.Context())
	require.NoError(t, err)
	assert.Equal(t, wlm.Inventory{Partitions: []wlm.Partition{{Name: "local", Default: true, Nodes: []wlm.Node{
		{Name: "n1", CPUs: 4, MemoryMiB: 4096, GPUs: 4, State: "mixed", Usable: true},
		{Name: "n2", CPUs: 4, MemoryMiB: 4096, GPUs: 4, State: "idle", Usable: true},
	}}}, ComponentsShareNodes: true}, inv)

	write(t, running, "release", "")
	c.waitFor(t, largeID, wlm.PhaseRunning)
	assert.Equal(t, wlm.PhaseQueued, c.job(t, smallID).Phase)
	write(t, large, "release", "")
	c.waitFor(t, smallID, wlm.PhaseRunning)
	write(t, small, "release", "")
	c.waitFor(t, smallID, wlm.PhaseEnded)
}

func TestThePodsExitCodeIsTheJobs(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "failing", group(2, 1, 0, 0))
	id := c.submit(t, r)
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 42}}}
	require.NoError(t, spool.Write(spool.Dir(r.Dir).Status(1), spool.Status{
		Pod: &spool.PodStatus{Done: true, Containers: []corev1.ContainerStatus{ended}},
	}))
	write(t, r, "release", "")
	job := c.waitFor(t, id, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeFailed, job.Outcome)
	assert.Equal(t, "NonZeroExitCode", job.Reason)
	assert.Equal(t, 42, result(t, r).ExitCode)
}

func TestAnAgentThatFailsEndsTheWholeJob(t *testing.T) {
	tests := map[string]struct{ mode, release string }{
		"the others end when asked": {"kind", ""},
		"the others must be killed": {"stubborn", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := smallCluster(t)
			r := c.request(t, "failing", group(2, 1, 0, 0))
			write(t, r, "mode", tt.mode)
			id := c.submit(t, r)
			lines(t, r, "started", 2)
			if tt.mode == "stubborn" {
				lines(t, r, "escaped", 2)
			}
			write(t, r, "exit.1", "3")
			job := c.waitFor(t, id, wlm.PhaseEnded)
			assert.Equal(t, wlm.OutcomeFailed, job.Outcome)
			assert.Equal(t, "the agent of task 1 on n1 ended with status 3", job.Reason)
			assert.NotZero(t, result(t, r).ExitCode)
			if tt.mode == "kind" {
				assert.Equal(t, []string{"0"}, lines(t, r, "terminated", 1))
			}
		})
	}
}

func TestAnAgentThatCannotBeStarted(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "nobody", group(1, 1, 0, 0))
	r.Agent = "/nonexistent/agent"
	job := c.waitFor(t, c.submit(t, r), wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeFailed, job.Outcome)
	assert.Contains(t, job.Reason, "ended with status 127")
	log, err := os.ReadFile(filepath.Join(r.Dir, "job.log"))
	require.NoError(t, err)
	assert.Contains(t, string(log), "/nonexistent/agent")
}

func TestATimeLimitIsHonoured(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "long", group(2, 1, 0, 0))
	r.TimeLimit = 500 * time.Millisecond
	write(t, r, "mode", "kind")
	id := c.submit(t, r)
	job := c.waitFor(t, id, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeTimeout, job.Outcome)
	assert.Equal(t, "TIMEOUT", job.State)
	assert.Equal(t, "TimeLimit", job.Reason)
	assert.GreaterOrEqual(t, job.Ended.Sub(job.Started), r.TimeLimit)
	assert.ElementsMatch(t, []string{"0", "1"}, lines(t, r, "terminated", 2))
}

func TestAJobIsCancelled(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "stubborn", group(2, 4, 0, 0))
	write(t, r, "mode", "stubborn")
	id := c.submit(t, r)
	escaped := lines(t, r, "escaped", 2)
	queued := c.request(t, "queued", group(1, 1, 0, 0))
	queuedID := c.submit(t, queued)
	require.NoError(t, c.Cancel(t.Context(), "", queuedID))
	job := c.job(t, queuedID)
	assert.Equal(t, wlm.PhaseEnded, job.Phase)
	assert.Equal(t, wlm.OutcomeCancelled, job.Outcome)
	assert.Zero(t, job.Started)
	assert.NoFileExists(t, filepath.Join(queued.Dir, "started"))

	require.NoError(t, c.Cancel(t.Context(), "", id))
	job = c.job(t, id)
	assert.Equal(t, wlm.PhaseEnding, job.Phase)
	assert.Equal(t, "COMPLETING", job.State)
	job = c.waitFor(t, id, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeCancelled, job.Outcome)
	assert.GreaterOrEqual(t, job.Ended.Sub(job.Started), c.cfg.Grace)
	for _, pid := range escaped { // in sessions of their own, and yet
		_, err := os.Stat("/proc/" + pid)
		assert.Eventually(t, func() bool { _, err = os.Stat("/proc/" + pid); return err != nil || zombie(pid) },
			5*time.Second, 5*time.Millisecond)
	}
}

func zombie(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return true
	}
	p, err := parseStat(string(stat))
	return err == nil && p.Zombie
}

func TestACancelledGangThatEndsWhenAskedIsNotKilled(t *testing.T) {
	c := smallCluster(t, func(c *Config) { c.Grace = time.Minute })
	r := c.request(t, "kind", group(2, 1, 0, 0))
	write(t, r, "mode", "kind")
	id := c.submit(t, r)
	env(t, r, 0)
	env(t, r, 1)
	require.NoError(t, c.Cancel(t.Context(), "", id))
	assert.Equal(t, wlm.OutcomeCancelled, c.waitFor(t, id, wlm.PhaseEnded).Outcome)
}

func TestWhatCanNeverRunIsRefused(t *testing.T) {
	c := smallCluster(t)
	tests := map[string]struct {
		change func(*translate.Request)
		want   string
	}{
		"another partition":          {func(r *translate.Request) { r.Partition = "gpu" }, `no partition "gpu"; the only one is "local"`},
		"a feature":                  {func(r *translate.Request) { r.Constraint = "h100" }, `features "h100"`},
		"a reservation":              {func(r *translate.Request) { r.Reservation = "school" }, `no reservation "school"`},
		"a task larger than a node":  {func(r *translate.Request) { r.Groups = []translate.TaskGroup{group(1, 5, 0, 0)} }, "even if they were empty"},
		"more tasks than fit":        {func(r *translate.Request) { r.Groups = []translate.TaskGroup{group(9, 1, 0, 0)} }, "even if they were empty"},
		"too many GPUs":              {func(r *translate.Request) { r.Groups = []translate.TaskGroup{group(3, 1, 0, 3)} }, "even if they were empty"},
		"licenses":                   {func(r *translate.Request) { r.Licenses = "x" }, `the licenses "x" cannot be asked of`},
		"another job first":          {func(r *translate.Request) { r.Dependency = "afterok:1" }, "the dependency"},
		"a number of nodes":          {func(r *translate.Request) { r.MaxNodes = 1 }, `the number of nodes "1-1"`},
		"an option of sbatch's":      {func(r *translate.Request) { r.Flags = []translate.Flag{{Name: "hint"}} }, "--hint cannot be asked of"},
		"GPUs of a type":             {func(r *translate.Request) { r.Groups[0].Gres = "gpu:h100:1" }, `there is no "gpu:h100:1"`},
		"no task":                    {func(r *translate.Request) { r.Groups = nil }, "no task"},
		"a task without CPUs":        {func(r *translate.Request) { r.Groups = []translate.TaskGroup{group(1, 0, 0, 0)} }, "makes no sense"},
		"an agent found by its name": {func(r *translate.Request) { r.Agent = "agent" }, "absolute paths"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := c.request(t, "refused", group(1, 1, 0, 0))
			tt.change(&r)
			_, err := c.Submit(t.Context(), r)
			var rejected *wlm.RejectedError
			require.ErrorAs(t, err, &rejected)
			assert.Contains(t, rejected.Message, tt.want)
		})
	}
	r := c.request(t, "no-directory", group(1, 1, 0, 0))
	r.Dir = "/nonexistent"
	_, err := c.Submit(t.Context(), r)
	var rejected *wlm.RejectedError
	require.Error(t, err)
	assert.NotErrorAs(t, err, &rejected)
	jobs, err := c.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, jobs)
}

func TestADuplicateDoesNothing(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "twice", group(1, 1, 0, 0))
	first, second := c.submit(t, r), c.submit(t, r)
	job := c.waitFor(t, second, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeCompleted, job.Outcome)
	assert.Contains(t, job.Reason, "claimed by another job: job "+first)
	assert.NoFileExists(t, spool.Dir(r.Dir).Result(), "it is the first one's to write")
	write(t, r, "release", "")
	c.waitFor(t, first, wlm.PhaseEnded)
	assert.Equal(t, []string{"0"}, lines(t, r, "started", 1))
}

func TestEndedJobsAreForgottenInTime(t *testing.T) {
	c := smallCluster(t, func(c *Config) { c.Retention = 300 * time.Millisecond })
	r := c.request(t, "short", group(1, 1, 0, 0))
	write(t, r, "release", "")
	id := c.submit(t, r)
	c.waitFor(t, id, wlm.PhaseEnded)
	require.Eventually(t, func() bool {
		jobs, err := c.List(t.Context())
		return err == nil && len(jobs) == 0
	}, 5*time.Second, 5*time.Millisecond)
	assert.NoDirExists(t, filepath.Join(c.cfg.StateDir, "jobs", id))
	again := c.request(t, "next", group(1, 1, 0, 0))
	write(t, again, "release", "")
	assert.NotEqual(t, id, c.submit(t, again), "no number is used twice")
}

func TestTheNameIsLocal(t *testing.T) {
	name, err := smallCluster(t).Name(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "local", name)
}
