package agent_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

const trapping = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"

func TestReleaseStopsWhatRuns(t *testing.T) {
	w := single(t)
	w.run(0, w.orders("u", trapping))
	w.waitLog(0, "u", "ready")
	w.release()
	assert.Equal(t, 0, w.agentExit(0))
	assert.Equal(t, 7, exitCode(t, w.done(0, "u")))
}

func TestTerminatingTheAgentStopsWhatRuns(t *testing.T) {
	w := single(t)
	w.run(0, w.orders("u", trapping))
	w.waitLog(0, "u", "ready")
	require.NoError(t, w.agents[0].Process.Signal(unix.SIGTERM))
	assert.Equal(t, 143, w.agentExit(0))
	assert.Equal(t, 7, exitCode(t, w.done(0, "u")))
	assert.True(t, w.done(0, "u").Interrupted, "the node did not ask for it")
}

func TestTerminatingTheAgentLeavesPodsNoLongerThanTheWorkloadManagerDoes(t *testing.T) {
	w := single(t, "GANGLINE_KILL_WAIT=2s")
	o := w.orders("u", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
	o.GraceSeconds = 3600
	w.run(0, o)
	w.waitLog(0, "u", "ready")
	require.NoError(t, w.agents[0].Process.Signal(unix.SIGTERM))
	assert.Equal(t, 143, w.agentExit(0))
	assert.Equal(t, 137, exitCode(t, w.done(0, "u")))
	assert.True(t, w.done(0, "u").Interrupted)
}

func TestAKilledAgentLeavesNoFiles(t *testing.T) {
	w := single(t)
	o := w.orders("u", "echo ready; exec sleep 1000")
	o.Volumes = []spool.Volume{{Name: "s", Files: []spool.File{{Path: "password", Mode: 0o400, Data: []byte("x")}}}}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "s", Path: "/secret"}}
	w.run(0, o)
	w.waitLog(0, "u", "ready")
	w.killInner(0)
	assert.Equal(t, 137, w.agentExit(0))
	for _, dir := range []string{w.memory, filepath.Join(w.disk, "gangline-"+strconv.Itoa(os.Getuid()))} {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, left, dir)
	}
}

func TestAnAgentRunsThoughSomebodyTookItsDirectory(t *testing.T) {
	w := prepareWorld(t, t.TempDir(), [][]int{{0}})
	agent.TakeForeign(t, w.memory)
	w.agents = append(w.agents, w.startAgent(0))
	w.publishNames()
	w.run(0, w.orders("u", "exit 3"))
	assert.Equal(t, 3, exitCode(t, w.done(0, "u")))
	w.release()
	assert.Equal(t, 0, w.agentExit(0))
	left, err := filepath.Glob(w.memory + "-*")
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWithoutAPrivateRootNothingOutlivesTheOnlyPodOfATask(t *testing.T) {
	w := single(t, "GANGLINE_PRIVATE_ROOT=off")
	w.run(0, w.orders("u", hiding("")))
	w.done(0, "u")
	assertGone(t, w.log(0, "u", "main", 0, "stdout"))
}

func TestAProcessThatHidesEndsWithItsPodBesideAnotherPod(t *testing.T) {
	w := newWorld(t, [][]int{{0, 1}})
	w.publishNames()
	w.run(1, w.orders("other", idle))
	w.waitLog(1, "other", "ready")
	w.run(0, w.orders("u", hiding("GANGLINE_CONTAINER=other-main-0")))
	w.done(0, "u")
	assertGone(t, w.log(0, "u", "main", 0, "stdout"))
	w.running(1, "other")
}

func TestAPodThatKillsItselfWasNotInterrupted(t *testing.T) {
	w := single(t)
	w.run(0, w.orders("u", "kill -TERM $$"))
	assert.Equal(t, 143, exitCode(t, w.done(0, "u")))
	assert.False(t, w.done(0, "u").Interrupted)
}

func TestKillingTheAgentLeavesNothing(t *testing.T) {
	for sentence, kill := range map[string]func(w *world){
		"the agent itself":                       func(w *world) { w.killInner(0) },
		"the process that entered the namespace": func(w *world) { require.NoError(w.t, w.agents[0].Process.Kill()) },
	} {
		t.Run(sentence, func(t *testing.T) {
			w := single(t)
			w.run(0, w.orders("u", "setsid env -i sleep 1000 </dev/null >/dev/null 2>&1 & echo $! $$; exec sleep 1000"))
			w.waitLog(0, "u", "stdout")
			pids := strings.Fields(w.log(0, "u", "main", 0, "stdout"))
			require.Len(t, pids, 2)
			kill(w)
			w.agentExit(0)
			for _, text := range pids {
				pid, err := strconv.Atoi(text)
				require.NoError(t, err)
				require.Eventually(t, func() bool { return unix.Kill(pid, 0) != nil }, 20*time.Second, 10*time.Millisecond)
			}
		})
	}
}

func TestWithoutAPrivateRootAContainerStillDiesWithItsAgent(t *testing.T) {
	w := single(t, "GANGLINE_PRIVATE_ROOT=off")
	w.run(0, w.orders("u", "echo $$; exec sleep 1000"))
	w.waitLog(0, "u", "stdout")
	pid, err := strconv.Atoi(strings.TrimSpace(w.log(0, "u", "main", 0, "stdout")))
	require.NoError(t, err)
	require.NoError(t, w.agents[0].Process.Kill())
	require.Eventually(t, func() bool { return unix.Kill(pid, 0) != nil }, 20*time.Second, 10*time.Millisecond)
}

func TestAPodIsNotRunAgainByASecondAgent(t *testing.T) {
	w := single(t)
	w.run(0, w.orders("u", "echo ran; exec sleep 1000"))
	w.waitLog(0, "u", "ran")
	w.running(0, "u")
	w.killInner(0)
	assert.Equal(t, 137, w.agentExit(0))
	first := w.agentStatus(0)

	w.agents[0] = w.startAgent(0)
	require.Eventually(t, func() bool { return w.agentStatus(0).Instance != first.Instance }, 20*time.Second, 5*time.Millisecond)
	w.run(0, w.orders("u", "echo again"))
	p := w.done(0, "u")
	assert.Equal(t, wellknown.ReasonAgentRestarted, p.Reason)
	assert.Equal(t, "ran\n", w.log(0, "u", "main", 0, "stdout"))

	w.publishNames()
	w.run(0, w.orders("v", "exit 3"))
	assert.Equal(t, 3, exitCode(t, w.done(0, "v")))
}

func TestAnAgentOfAnotherJobRefuses(t *testing.T) {
	w := prepareWorld(t, t.TempDir(), [][]int{{0}})
	require.NoError(t, w.dir.TakeClaim(spool.Claim{JobID: "6", Host: "hpc9"}))
	w.agents = append(w.agents, w.startAgent(0))
	assert.Equal(t, 1, w.agentExit(0))
	assert.NoFileExists(t, w.dir.Status(0))
}

func TestASlotThatRidesHasAnSSHServiceAndNoGPU(t *testing.T) {
	w := prepareWorld(t, t.TempDir(), [][]int{{0, 1}})
	w.gang.Slots[1].Rides, w.gang.Slots[1].GPUs = true, 0
	w.writeGang()
	w.agents = append(w.agents, w.startAgent(0))
	assert.NotEqual(t, w.agentStatus(0).SSHPort, w.agentStatus(1).SSHPort)
	w.publishNames()
	const script = "echo \"gpus:$CUDA_VISIBLE_DEVICES\""
	w.run(0, w.orders("a", script))
	w.run(1, w.orders("b", script))
	w.done(0, "a")
	w.done(1, "b")
	assert.Equal(t, "gpus:3\n", w.log(0, "a", "main", 0, "stdout"))
	assert.Equal(t, "gpus:\n", w.log(1, "b", "main", 0, "stdout"))
}

func TestWithoutPrivateRoots(t *testing.T) {
	w := single(t, "GANGLINE_PRIVATE_ROOT=off")
	a := w.agentStatus(0)
	assert.False(t, a.PrivateRoot)
	assert.Contains(t, a.PrivateRootError, "GANGLINE_PRIVATE_ROOT=off")

	// The mounts that Kubernetes and we add do no harm, and a host's own path
	// needs no mount.
	o := w.orders("u", `echo $GANGLINE_DIR; test -L $GANGLINE_DIR/bin/ssh || exit 9; cat $HOSTFILE; cat $HERE/x; echo $MASTER_ADDR`)
	here := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(here, "x"), []byte("host\n"), 0o644))
	o.Volumes = []spool.Volume{
		{Name: "token", Files: []spool.File{{Path: "token", Mode: 0o644}}},
		{Name: "mpi", Files: []spool.File{{Path: "hostfile", Mode: 0o644, Data: []byte("pi-worker-0\n")}}},
		{Name: "host", HostPath: here},
	}
	o.Containers[0].Mounts = []spool.Mount{
		{Volume: "token", Path: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		{Volume: "mpi", Path: "/etc/mpi"},
		{Volume: "host", Path: here},
	}
	o.Containers[0].Env = append(o.Containers[0].Env, envVar("HOSTFILE", "/etc/mpi/hostfile"), envVar("HERE", here), envVar("MASTER_ADDR", "pi-worker-0"))
	w.run(0, o)
	p := w.done(0, "u")
	require.Empty(t, p.Reason, p.Message)
	assert.Equal(t, 0, exitCode(t, p))
	assert.Equal(t, filepath.Join(w.memory, "pi-1-0", "u", "run")+"\npi-worker-0\nhost\n127.0.0.1\n", w.log(0, "u", "main", 0, "stdout"))

	o = w.orders("v", "true")
	o.Volumes = []spool.Volume{{Name: "data", EmptyDir: &spool.EmptyDir{}}}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "data", Path: "/workspace"}}
	w.run(0, o)
	p = w.done(0, "v")
	assert.Equal(t, wellknown.ReasonPrivateRootUnavailable, p.Reason)
	assert.Contains(t, p.Message, `container "main": volume "data" cannot be mounted at /workspace without a private root`)
	assert.Contains(t, p.Message, "have user namespaces allowed")
}

func TestConfigurationErrors(t *testing.T) {
	base := map[string]string{"GANGLINE_JOB_ID": "7", "GANGLINE_TASK": "0", "GANGLINE_ADDRESS": "10.0.0.1"}
	for sentence, tc := range map[string]struct {
		change map[string]string
		want   string
	}{
		"no job":            {map[string]string{"GANGLINE_JOB_ID": ""}, "the job's id is not known"},
		"no task":           {map[string]string{"GANGLINE_TASK": ""}, "the task's number is not known"},
		"a task's bad name": {map[string]string{"GANGLINE_TASK": "x"}, `the task's number "x" is none`},
		"an address's name": {map[string]string{"GANGLINE_ADDRESS": "hpc1"}, "reading GANGLINE_ADDRESS"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := agent.FromEnvironment(t.TempDir(), -1, func(name string) string {
				if v, ok := tc.change[name]; ok {
					return v
				}
				return base[name]
			})
			require.ErrorContains(t, err, tc.want)
		})
	}
}
