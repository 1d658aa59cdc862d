package launch

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

func TestSrunArgs(t *testing.T) {
	for name, tc := range map[string]struct {
		env           map[string]string
		tasks, groups int
	}{
		"plain": {env: map[string]string{}, tasks: 4, groups: 1},
		"cpus-and-gpus": {
			env: map[string]string{"SLURM_NTASKS": "4", "SLURM_CPUS_PER_TASK": "8", "SLURM_GPUS_PER_TASK": "2"}, tasks: 4, groups: 1},
		"heterogeneous": {
			env: map[string]string{
				"SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "9", // the first component's, which must not be taken
				"SLURM_NTASKS_HET_GROUP_0": "2", "SLURM_CPUS_PER_TASK_HET_GROUP_0": "8", "SLURM_GPUS_PER_TASK_HET_GROUP_0": "4",
				"SLURM_NTASKS_HET_GROUP_1": "3", "SLURM_CPUS_PER_TASK_HET_GROUP_1": "1",
			}, tasks: 5, groups: 2},
	} {
		t.Run(name, func(t *testing.T) {
			args := srunArgs(func(n string) string { return tc.env[n] }, tc.tasks, tc.groups, "/opt/gangline-agent", "/spool/gangs/pi-1")
			want, err := os.ReadFile(filepath.Join("testdata", name+".srun"))
			require.NoError(t, err)
			assert.Equal(t, string(want), strings.Join(args, "\n")+"\n")
		})
	}
}

// ended is a container that ended.
func ended(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func waiting(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
}

func TestWorkersThatWereStoppedDoNotFailTheGang(t *testing.T) {
	dir := spool.Root(t.TempDir()).Dir("pi-1")
	err := dir.Create(2)
	require.NoError(t, err)
	gang := spool.Gang{Slots: make([]spool.Slot, 2)}
	require.NoError(t, spool.Write(dir.Gang(), gang))
	report := func(k int, uid string, code int32) {
		require.NoError(t, spool.Write(dir.Status(k), spool.Status{Pod: &spool.PodStatus{
			UID: uid, Done: true, Containers: []corev1.ContainerStatus{ended("main", code)},
		}}))
	}
	exitCode := func() int {
		r, err := Outcome(dir, 0, time.Unix(0, 0))
		require.NoError(t, err)
		return r.ExitCode
	}
	assert.Zero(t, exitCode(), "no pod has been there yet")
	report(0, "launcher", 0)
	report(1, "worker", 143)
	assert.Equal(t, 143, exitCode())
	require.NoError(t, spool.Write(dir.Desired(1), spool.Desired{PodUID: "another", Action: spool.ActionStop}))
	assert.Equal(t, 143, exitCode(), "another pod was stopped")
	require.NoError(t, spool.Write(dir.Desired(1), spool.Desired{PodUID: "worker", Action: spool.ActionStop}))
	assert.Zero(t, exitCode())
	require.NoError(t, spool.Write(dir.Desired(1), spool.Desired{PodUID: "worker", Action: spool.ActionRun}))
	gang.Release = true
	require.NoError(t, spool.Write(dir.Gang(), gang))
	assert.Zero(t, exitCode(), "all were, with the allocation")
	report(0, "launcher", 7)
	assert.Equal(t, 7, exitCode())
}

func TestOutcome(t *testing.T) {
	now := time.Unix(1000, 0)
	ran := func(containers ...corev1.ContainerStatus) spool.PodStatus {
		return spool.PodStatus{Started: now, Containers: containers, Done: true}
	}
	for sentence, tc := range map[string]struct {
		agents  int
		pods    []lastPod
		code    int
		message string
	}{
		"nothing ran":   {},
		"all succeeded": {pods: []lastPod{{status: ran(ended("main", 0))}}},
		"the highest code counts": {
			pods: []lastPod{{slot: 0, status: ran(ended("a", 2), ended("b", 0))}, {slot: 1, status: ran(ended("a", 7))}, {slot: 2, status: ran(ended("a", 3))}},
			code: 7, message: `slot 1: container "a" ended with exit code 7`},
		"agents that failed have the last word": {
			agents: 1, pods: []lastPod{{status: ran(ended("a", 7))}}, code: 1, message: "the agents ended with exit code 1"},
		"a worker that was stopped has not failed": {
			pods: []lastPod{{status: ran(ended("a", 0))}, {slot: 1, status: ran(ended("a", 143)), stopped: true}, {slot: 2, status: ran(ended("a", 137)), stopped: true}}},
		"a worker that failed before it was stopped has": {
			pods: []lastPod{{slot: 1, status: ran(ended("a", 3)), stopped: true}}, code: 3, message: `slot 1: container "a" ended with exit code 3`},
		"a signal that nobody of us sent is a failure": {
			pods: []lastPod{{status: ran(ended("a", 137))}}, code: 137, message: `slot 0: container "a" ended with exit code 137`},
		"an init container that kept the others from starting": {
			pods: []lastPod{{status: spool.PodStatus{Started: now, InitContainers: []corev1.ContainerStatus{ended("init", 4)}, Containers: []corev1.ContainerStatus{waiting("main")}}}},
			code: 4, message: `slot 0: container "init" ended with exit code 4`},
		"a sidecar's code does not count": {
			pods: []lastPod{{status: spool.PodStatus{Started: now, InitContainers: []corev1.ContainerStatus{ended("side", 143)}, Containers: []corev1.ContainerStatus{ended("main", 0)}}}}},
		"a container that failed although it was asked to end": {
			pods: []lastPod{{status: ran(ended("a", 143), ended("b", 2)), stopped: true}}, code: 2, message: `slot 0: container "b" ended with exit code 2`},
		"nothing has ended": {pods: []lastPod{{status: ran(waiting("main"))}}},
		"a pod that failed as a whole": {
			pods: []lastPod{{status: spool.PodStatus{Reason: "SetupFailed", Message: "no space left"}}}, code: 1, message: "slot 0: SetupFailed: no space left"},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, spool.Result{ExitCode: tc.code, Message: tc.message, Finished: now}, outcome(tc.agents, tc.pods, now))
		})
	}
}

// job is an allocation with a stand-in for srun.
type job struct {
	t   *testing.T
	dir spool.Dir
	env []string
	log bytes.Buffer
	// patience is how long a start is tried again, none by default
	patience time.Duration
}

func newJob(t *testing.T, srun string) *job {
	t.Helper()
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "srun"), []byte("#!/bin/sh\n"+srun+"\n"), 0o755))
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	j := &job{t: t, dir: spool.Root(t.TempDir()).Dir("pi-1"), env: []string{"PATH=" + bin + ":/usr/bin:/bin", "SLURM_JOB_ID=7"}}
	err := j.dir.Create(2)
	require.NoError(t, err)
	require.NoError(t, spool.Write(j.dir.Gang(), spool.Gang{
		Version: 1, Allocation: "pi-1", Slots: make([]spool.Slot, 2), Tasks: [][]int{{0}, {1}}, Groups: 1,
	}))
	return j
}

func (j *job) run(ctx context.Context, extra ...string) (int, error) {
	j.t.Helper()
	return Run(ctx, Config{
		Dir: j.dir, Self: "/opt/gangline-agent", Env: append(j.env, extra...),
		Stdout: &j.log, Stderr: &j.log, Logger: slog.New(slog.DiscardHandler), StartPatience: cmp.Or(j.patience, time.Nanosecond),
	})
}

func (j *job) result() spool.Result {
	j.t.Helper()
	var r spool.Result
	found, err := spool.Read(j.dir.Result(), &r)
	require.NoError(j.t, err)
	require.True(j.t, found)
	return r
}

func TestRunReportsHowThePodsEnded(t *testing.T) {
	j := newJob(t, `echo "$GANGLINE_JOB_ID $1 $2"`)
	require.NoError(t, spool.Write(j.dir.Status(1), spool.Status{Pod: &spool.PodStatus{
		UID: "u", Started: time.Now(), Containers: []corev1.ContainerStatus{ended("main", 3)}, Done: true}}))
	code, err := j.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, code)
	assert.Equal(t, 3, j.result().ExitCode)
	assert.Equal(t, "7 --ntasks=2 --distribution=block\n", j.log.String())
}

func TestRunReportsThatAgentsFailed(t *testing.T) {
	code, err := newJob(t, "exit 9").run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 9, code)
}

func TestAStartIsTriedAgainWhileNoAgentHasBegun(t *testing.T) {
	tried := filepath.Join(t.TempDir(), "tried")
	j := newJob(t, "test -e "+tried+" && exit 0; echo >"+tried+"; echo not yet >&2; exit 1")
	j.patience = 10 * time.Second
	code, err := j.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 0, code)
}

func TestAStartIsNotTriedAgainOnceAnAgentHasBegun(t *testing.T) {
	j := newJob(t, "echo the nodes caught fire >&2; exit 1")
	j.patience = time.Hour
	require.NoError(t, spool.Write(j.dir.Status(0), spool.Status{}))
	code, err := j.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, code)
	assert.Equal(t, "the agents ended with exit code 1: the nodes caught fire", j.result().Message)
}

func TestAStartIsNotTriedAgainWhereNobodyKnowsWhetherAnAgentHasBegun(t *testing.T) {
	j := newJob(t, "exit 1")
	j.patience = time.Hour
	slots := filepath.Dir(j.dir.Slot(0))
	require.NoError(t, os.RemoveAll(slots))
	require.NoError(t, os.WriteFile(slots, nil, 0o600)) // cannot be listed, and is not missing either
	code, err := j.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, code)
}

type fullFilesystem struct{}

func (fullFilesystem) Write([]byte) (int, error) { return 0, unix.ENOSPC }

func TestAgentsRunOnWhereTheirLauncherCannotWriteWhatTheySay(t *testing.T) {
	j := newJob(t, "for i in 1 2 3 4; do echo said >&2; sleep 0.1; done; exit 7")
	code, err := Run(t.Context(), Config{
		Dir: j.dir, Self: "/opt/gangline-agent", Env: j.env, Stdout: io.Discard, Stderr: fullFilesystem{},
		Logger: slog.New(slog.DiscardHandler), StartPatience: time.Nanosecond,
	})
	require.NoError(t, err)
	assert.Equal(t, 7, code, "and not 141, for a broken pipe")
}

func TestRunReportsThatAgentsCannotBeStarted(t *testing.T) {
	j := newJob(t, "")
	t.Setenv("PATH", "/nowhere")
	code, err := j.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, code)
	assert.Contains(t, j.result().Message, "starting the agents by srun")
}

// untilReady is a context that ends when a script runs the command.
func untilReady(t *testing.T) (ctx context.Context, command string) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "ready")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_, _ = os.ReadFile(pipe) // returns when somebody has written to it
	}()
	return ctx, "echo >" + pipe
}

func TestRunPassesTheEndOn(t *testing.T) {
	ctx, ready := untilReady(t)
	j := newJob(t, "trap 'exit 5' TERM; "+ready+"; while :; do sleep 0.05; done")
	code, err := j.run(ctx)
	require.NoError(t, err)
	assert.Equal(t, 5, code)
}

func TestAJobThatWasAskedToEndHasNotSucceeded(t *testing.T) {
	ctx, ready := untilReady(t)
	j := newJob(t, "trap 'exit 0' TERM; "+ready+"; while :; do sleep 0.05; done")
	code, err := j.run(ctx)
	require.NoError(t, err)
	assert.Equal(t, 143, code)
	assert.Equal(t, 143, j.result().ExitCode)
	assert.Equal(t, "the job was asked to end", j.result().Message)
}

func TestTheAgentsLearnHowLongSlurmLetsAJobLive(t *testing.T) {
	for sentence, tc := range map[string]struct{ scontrol, site, want string }{
		"Slurm's KillWait, less what the report takes": {"echo 'KillWait                = 60 sec'", "", "58s"},
		"a short one":                {"echo 'KillWait = 2 sec'", "", "1s"},
		"the site's own word counts": {"echo 'KillWait = 60 sec'", "7s", "7s"},
		"scontrol fails":             {"exit 1", "", "default"},
		"scontrol says nothing":      {"echo nothing", "", "default"},
	} {
		t.Run(sentence, func(t *testing.T) {
			j := newJob(t, `echo "${GANGLINE_KILL_WAIT:-default}"`)
			bin, _, _ := strings.Cut(os.Getenv("PATH"), ":")
			require.NoError(t, os.WriteFile(filepath.Join(bin, "scontrol"), []byte("#!/bin/sh\n"+tc.scontrol+"\n"), 0o755))
			var extra []string
			if tc.site != "" {
				extra = append(extra, "GANGLINE_KILL_WAIT="+tc.site)
			}
			_, err := j.run(t.Context(), extra...)
			require.NoError(t, err)
			assert.Equal(t, tc.want+"\n", j.log.String())
		})
	}
}

func TestADuplicateRunsNothing(t *testing.T) {
	j := newJob(t, "echo ran")
	require.NoError(t, j.dir.TakeClaim(spool.Claim{JobID: "6", Host: "hpc9"}))
	code, err := j.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 0, code)
	assert.Empty(t, j.log.String())
	assert.NoFileExists(t, j.dir.Result())
}

func TestAJobThatIsStartedAgainRunsNothing(t *testing.T) {
	j := newJob(t, "echo ran")
	_, err := j.run(t.Context())
	require.NoError(t, err)
	j.log.Reset()
	_, err = j.run(t.Context())
	require.ErrorIs(t, err, ErrRequeued)
	assert.Empty(t, j.log.String())
	var result spool.Result
	_, err = spool.Read(j.dir.Result(), &result)
	require.NoError(t, err)
	assert.True(t, result.Requeued, "the node hears why the job ends")
	assert.Zero(t, result.ExitCode, "what the first run said stays")

	require.NoError(t, os.Remove(j.dir.Result()))
	_, err = j.run(t.Context())
	require.ErrorIs(t, err, ErrRequeued)
	_, err = spool.Read(j.dir.Result(), &result)
	require.NoError(t, err)
	assert.Equal(t, 1, result.ExitCode, "a run that was cut short has not succeeded")
}

func TestWhatKeepsTheLauncherFromRunning(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*job)
		extra  []string
		want   string
	}{
		"no job":                     {extra: []string{"SLURM_JOB_ID="}, want: "the job's id is not known"},
		"the local workload manager": {extra: []string{"GANGLINE_WLM=local"}, want: "starts the agents itself"},
		"a Flux job":                 {extra: []string{"SLURM_JOB_ID=", "FLUX_JOB_ID=f1"}, want: "they run gangline-agent serve"},
		"a gang of a newer version": {
			change: func(j *job) { require.NoError(j.t, spool.Write(j.dir.Gang(), spool.Gang{Version: 99})) },
			want:   "update gangline-agent"},
		"no gang": {
			change: func(j *job) { require.NoError(j.t, os.Remove(j.dir.Gang())) },
			want:   "does this node have the spool's filesystem?"},
		"a gang without tasks": {
			change: func(j *job) { require.NoError(j.t, spool.Write(j.dir.Gang(), spool.Gang{Version: 1})) },
			want:   "has no tasks"},
	} {
		t.Run(sentence, func(t *testing.T) {
			j := newJob(t, "echo ran")
			if tc.change != nil {
				tc.change(j)
			}
			_, err := j.run(t.Context(), tc.extra...)
			require.ErrorContains(t, err, tc.want)
			assert.NoFileExists(t, j.dir.Claim())
		})
	}
}
