package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// managerVariable makes the test's program a manager with the configuration
// that it holds, to be killed by the test.
const managerVariable = "GANGLINE_TEST_LOCAL_MANAGER"

func TestMain(m *testing.M) {
	config := os.Getenv(managerVariable)
	if config == "" {
		os.Exit(m.Run())
	}
	if err := runManager(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runManager(config string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	m, err := New(cfg)
	if err != nil {
		return err
	}
	fmt.Println("at work")
	return m.Run(context.Background())
}

func TestTheNextManagerFindsTheQueueAndTheRunningJobs(t *testing.T) {
	c := smallCluster(t)
	running := c.request(t, "running", group(2, 4, 0, 2))
	queued := c.request(t, "queued", group(1, 1, 0, 0))
	runningID, queuedID := c.submit(t, running), c.submit(t, queued)
	env(t, running, 0)
	env(t, running, 1)
	before := c.job(t, runningID)
	c.stop()

	_, err := New(Config{StateDir: c.cfg.StateDir, Nodes: nil})
	require.Error(t, err)
	c.start(t)
	_, err = New(c.cfg)
	assert.ErrorContains(t, err, "another manager is at work there")

	after := c.job(t, runningID)
	assert.True(t, before.Started.Equal(after.Started))
	assert.Equal(t, wlm.PhaseRunning, after.Phase)
	assert.Equal(t, "n1,n2", after.Nodes)
	assert.Equal(t, wlm.PhaseQueued, c.job(t, queuedID).Phase)
	write(t, running, "release", "")
	assert.Equal(t, wlm.OutcomeCompleted, c.waitFor(t, runningID, wlm.PhaseEnded).Outcome)
	c.waitFor(t, queuedID, wlm.PhaseRunning)
	env(t, queued, 0)
	write(t, queued, "release", "")
	assert.Equal(t, wlm.OutcomeCompleted, c.waitFor(t, queuedID, wlm.PhaseEnded).Outcome)
	assert.Len(t, lines(t, running, "started", 2), 2, "no task was started twice")
	assert.Len(t, lines(t, queued, "started", 1), 1)
}

func TestAnExitThatNobodySawIsStillKnown(t *testing.T) {
	c := smallCluster(t)
	good, bad := c.request(t, "good", group(1, 1, 0, 0)), c.request(t, "bad", group(1, 1, 0, 0))
	goodID, badID := c.submit(t, good), c.submit(t, bad)
	env(t, good, 0)
	env(t, bad, 0)
	c.stop()
	write(t, good, "release", "")
	write(t, bad, "exit.0", "7")
	waitForExit(t, c, goodID, "0")
	waitForExit(t, c, badID, "0")
	c.start(t)
	assert.Equal(t, wlm.OutcomeCompleted, c.waitFor(t, goodID, wlm.PhaseEnded).Outcome)
	assert.Contains(t, c.waitFor(t, badID, wlm.PhaseEnded).Reason, "status 7")
	assert.Equal(t, 7, result(t, bad).ExitCode)
}

func waitForExit(t *testing.T, c *cluster, id, task string) {
	t.Helper()
	exit := filepath.Join(c.cfg.StateDir, "jobs", id, task+".exit")
	require.Eventually(t, func() bool { _, err := os.Stat(exit); return err == nil }, 5*time.Second, 5*time.Millisecond)
}

func TestACancellationOutlivesItsManager(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "stubborn", group(1, 1, 0, 0))
	write(t, r, "mode", "stubborn")
	id := c.submit(t, r)
	lines(t, r, "escaped", 1)
	require.NoError(t, c.Cancel(t.Context(), "", id))
	c.stop()
	c.start(t)
	assert.Equal(t, wlm.OutcomeCancelled, c.waitFor(t, id, wlm.PhaseEnded).Outcome)
}

func TestAJobThatWasCancelledWhileItStartedNeverRuns(t *testing.T) {
	c := smallCluster(t)
	c.stop() // the scheduler rests: the steps are made here, as by a manager that dies between them
	m, err := New(c.cfg)
	require.NoError(t, err)
	r := c.request(t, "late", group(1, 1, 0, 0))
	id, err := m.Submit(t.Context(), r)
	require.NoError(t, err)
	j := m.jobs[0]
	require.NoError(t, m.update(j, func(j *job) {
		j.Started, j.Boot, j.Places = time.Now(), m.boot, []placement{{Node: "n1", CPUs: 1}}
	}))
	require.NoError(t, m.Cancel(t.Context(), "", id))
	require.NoError(t, m.Close())

	c.start(t)
	assert.Equal(t, wlm.OutcomeCancelled, c.waitFor(t, id, wlm.PhaseEnded).Outcome)
	// A starter of the dead manager that is still on its way comes too late.
	late := task{number: 0, dir: c.store.jobDir(id)}
	ended := make(chan struct{})
	require.NoError(t, late.start(r, c.env, func() { close(ended) }))
	<-ended
	assert.NoFileExists(t, filepath.Join(r.Dir, "started"))
}

func TestARestartOfTheMachineEndsWhatRan(t *testing.T) {
	c := smallCluster(t)
	ran, queued := c.request(t, "ran", group(2, 4, 0, 0)), c.request(t, "queued", group(1, 1, 0, 0))
	ranID, queuedID := c.submit(t, ran), c.submit(t, queued)
	env(t, ran, 0)
	env(t, ran, 1)
	c.stop()
	c.start(t, func(m *Manager) { m.boot = "another" })
	job := c.waitFor(t, ranID, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeNodeFailure, job.Outcome)
	assert.Equal(t, "the machine was restarted", job.Reason)
	assert.NotZero(t, result(t, ran).ExitCode)
	c.waitFor(t, queuedID, wlm.PhaseRunning)
	env(t, queued, 0)
	write(t, queued, "release", "")
	c.waitFor(t, queuedID, wlm.PhaseEnded)
	write(t, ran, "release", "") // its processes are there, for the machine was not really restarted
	for _, task := range []string{"0", "1"} {
		waitForExit(t, c, ranID, task)
	}
}

func TestAJobWhoseDirectoryIsGoneIsStillWatched(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "robbed", group(2, 4, 0, 0))
	id := c.submit(t, r)
	env(t, r, 0)
	env(t, r, 1)
	c.stop()
	require.Eventually(t, func() bool { return os.RemoveAll(r.Dir) == nil }, 10*time.Second, time.Millisecond, "its tasks may write there meanwhile")
	c.start(t)
	assert.Equal(t, wlm.PhaseRunning, c.job(t, id).Phase)
	require.NoError(t, c.Cancel(t.Context(), "", id))
	assert.Equal(t, wlm.OutcomeCancelled, c.waitFor(t, id, wlm.PhaseEnded).Outcome)
}

func TestAClaimOfTheSameNumberFromAnotherStateIsAnothers(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "old", group(1, 1, 0, 0))
	require.NoError(t, spool.Dir(r.Dir).TakeClaim(spool.Claim{JobID: "1", Host: "n1", Acquired: time.Now().Add(-time.Hour)}))
	id := c.submit(t, r)
	require.Equal(t, "1", id)
	assert.Contains(t, c.waitFor(t, id, wlm.PhaseEnded).Reason, "claimed by another job")
	assert.NoFileExists(t, filepath.Join(r.Dir, "started"))
}

func TestAJobThatNoLongerFitsDoesNotHoldUpTheQueue(t *testing.T) {
	c := smallCluster(t)
	blocker := c.request(t, "blocker", group(2, 4, 0, 0))
	large, small := c.request(t, "large", group(1, 4, 0, 0)), c.request(t, "small", group(1, 1, 0, 0))
	blockerID, largeID, smallID := c.submit(t, blocker), c.submit(t, large), c.submit(t, small)
	env(t, blocker, 0)
	env(t, blocker, 1)
	c.stop()
	c.cfg.Nodes = []NodeSpec{{Name: "n1", CPUs: 1}}
	c.start(t)
	assert.Equal(t, wlm.PhaseRunning, c.job(t, blockerID).Phase, "it has its places already")
	write(t, blocker, "release", "")
	assert.Equal(t, wlm.OutcomeFailed, c.waitFor(t, largeID, wlm.PhaseEnded).Outcome)
	c.waitFor(t, smallID, wlm.PhaseRunning)
	write(t, small, "release", "")
	c.waitFor(t, smallID, wlm.PhaseEnded)
}

func TestOnlyOneStarterOfATaskRunsItsAgent(t *testing.T) {
	c := smallCluster(t)
	r := c.request(t, "contested", group(1, 1, 0, 0))
	write(t, r, "release", "")
	contested := task{number: 0, dir: t.TempDir()}
	var starters sync.WaitGroup
	for range 8 {
		starters.Add(1)
		require.NoError(t, contested.start(r, append(c.env, "GANGLINE_TASK=0"), starters.Done))
	}
	starters.Wait()
	assert.Len(t, lines(t, r, "started", 1), 1)
	progress, status, err := contested.progress(true)
	require.NoError(t, err)
	assert.Equal(t, ended, progress)
	assert.Zero(t, status)
}

// A manager is killed at one moment after another of a job's start; the next one
// is killed as well. In the end every task has run exactly once.
func TestAManagerKilledAtAnyMomentNeitherLosesNorDoublesAJob(t *testing.T) {
	c := smallCluster(t)
	id := c.submit(t, c.request(t, "warm-up", group(1, 1, 0, 0)))
	c.waitFor(t, id, wlm.PhaseRunning)
	require.NoError(t, c.Cancel(t.Context(), "", id))
	c.waitFor(t, id, wlm.PhaseEnded)
	for moment := range 14 {
		r := c.request(t, fmt.Sprintf("moment-%d", moment), group(4, 2, 0, 1))
		c.stop()
		submitter, err := New(c.cfg) // one whose scheduler does not run
		require.NoError(t, err)
		id, err := submitter.Submit(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, submitter.Close())

		for range 2 {
			killed := startManager(t, c.cfg)
			time.Sleep(time.Duration(moment) * 700 * time.Microsecond) // the moment is what is tested
			require.NoError(t, killed.Process.Kill())
			_ = killed.Wait() // it was killed, and says so
		}
		c.start(t)
		c.waitFor(t, id, wlm.PhaseRunning)
		for task := range 4 {
			env(t, r, task)
		}
		write(t, r, "release", "")
		assert.Equal(t, wlm.OutcomeCompleted, c.waitFor(t, id, wlm.PhaseEnded).Outcome)
		started := lines(t, r, "started", 4)
		slices.Sort(started)
		assert.Equal(t, []string{"0", "1", "2", "3"}, started)
	}
}

// startManager returns when the manager is about to make its first step.
func startManager(t *testing.T, cfg Config) *exec.Cmd {
	t.Helper()
	cfg.Log = nil
	config, err := json.Marshal(cfg)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), managerVariable+"="+string(config))
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "at work\n", line)
	return cmd
}
