package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent"
	"github.com/gangline/gangline/agent/alias"
	"github.com/gangline/gangline/agent/launch"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/provider/spool"
)

// TestMain makes this program the agent as well, so that the tests run real
// agents as processes of their own.
func TestMain(m *testing.M) {
	switch {
	case sandbox.IsInit(os.Args):
		sandbox.Init()
	case alias.Find(os.Args) != nil:
		os.Exit(alias.Find(os.Args)(context.Background(), os.Args))
	case len(os.Args) > 2 && os.Args[1] == "serve":
		os.Exit(serve(os.Args[2], os.Args[3:]...))
	case len(os.Args) == 3 && os.Args[1] == "launch":
		os.Exit(launchAgents(os.Args[2]))
	}
	os.Exit(m.Run())
}

func launchAgents(dir string) int {
	self, err := os.Executable()
	if err == nil {
		var code int
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
		defer stop()
		code, err = launch.Run(ctx, launch.Config{
			Dir: spool.Dir(dir), Self: self, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
			Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
		if err == nil {
			return code
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func serve(dir string, task ...string) int {
	entry := sandbox.Enter()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	number := -1
	if len(task) > 0 {
		number, _ = strconv.Atoi(task[0])
	}
	cfg, err := agent.FromEnvironment(dir, number, os.Getenv)
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if entry.Ended {
		if err == nil {
			cfg.CleanUp()
		}
		return entry.Code
	}
	if err == nil {
		cfg.PrivateRoot = entry.Unavailable
		err = agent.Serve(ctx, cfg)
	}
	switch {
	case errors.Is(err, agent.ErrTerminated):
		return 143
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// world is a spool with one gang, and the node's part in it.
type world struct {
	t      *testing.T
	dir    spool.Dir
	gang   spool.Gang
	keys   mpi.Keys
	agents []*exec.Cmd
	memory string // where the agents keep what is to be in memory
	disk   string
	// handOver gives the spool's files to the user whom the agents run as.
	handOver func()
}

// newWorld starts an agent for each task of the gang.
func newWorld(t *testing.T, tasks [][]int, env ...string) *world {
	t.Helper()
	w := prepareWorld(t, t.TempDir(), tasks)
	for i := range tasks {
		w.agents = append(w.agents, w.startAgent(i, env...))
	}
	for k := range w.gang.Slots {
		w.agentStatus(k)
	}
	return w
}

func prepareWorld(t *testing.T, root string, tasks [][]int) *world {
	t.Helper()
	keys, err := mpi.DeriveKeys(bytes.Repeat([]byte("k"), mpi.MinSecret), "pi-1")
	require.NoError(t, err)
	memory, err := os.MkdirTemp("/dev/shm", "gangline-test-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(memory)) })
	w := &world{
		t: t, dir: spool.Root(root).Dir("pi-1"), keys: keys,
		memory: filepath.Join(memory, "agents"), disk: t.TempDir(),
		gang:     spool.Gang{Version: spool.Version, Allocation: "pi-1", Tasks: tasks, Groups: 1},
		handOver: func() {},
	}
	for _, slots := range tasks {
		for range slots {
			k := len(w.gang.Slots)
			w.gang.Slots = append(w.gang.Slots, spool.Slot{Hostname: fmt.Sprintf("pi-worker-%d", k), GPUs: 1})
		}
	}
	err = w.dir.Create(len(w.gang.Slots))
	require.NoError(t, err)
	w.writeGang()
	return w
}

func (w *world) startAgent(task int, env ...string) *exec.Cmd {
	w.t.Helper()
	cmd := exec.Command("/proc/self/exe", "serve", string(w.dir), strconv.Itoa(task))
	cmd.Env = append([]string{
		"PATH=/usr/bin:/bin", "HOME=" + w.t.TempDir(), "USER=alice",
		"GANGLINE_JOB_ID=7", "GANGLINE_NODE=hpc" + strconv.Itoa(task+1), "GANGLINE_ADDRESS=127.0.0.1",
		"GANGLINE_RUNTIME_DIR=" + w.memory, "TMPDIR=" + w.disk,
		"CUDA_VISIBLE_DEVICES=3", "SLURM_JOB_ID=7", "PMI_RANK=0",
	}, env...)
	cmd.Stderr = testLog{w.t}
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(unix.SIGTERM)
			_ = cmd.Wait()
		}
	})
	return cmd
}

// testLog shows what agents say, with the test.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	_, _ = l.t.Output().Write(p)
	return len(p), nil
}

func (w *world) writeGang() { w.t.Helper(); w.write(w.dir.Gang(), w.gang) }

func (w *world) write(path string, v any) {
	w.t.Helper()
	require.NoError(w.t, spool.Write(path, v))
	w.handOver()
}

func (w *world) agentStatus(k int) spool.Agent {
	w.t.Helper()
	var s spool.Status
	require.Eventually(w.t, func() bool {
		s = spool.Status{}
		found, err := spool.Read(w.dir.Status(k), &s)
		return err == nil && found
	}, 20*time.Second, 5*time.Millisecond, "agent of slot %d", k)
	return s.Agent
}

// publishNames tells all agents where all slots are, as the node does.
func (w *world) publishNames() {
	w.t.Helper()
	w.gang.Names = nil
	for k, s := range w.gang.Slots {
		a := w.agentStatus(k)
		w.gang.Names = append(w.gang.Names, spool.Name{
			Slot: k, Address: a.Address, SSHPort: a.SSHPort,
			Hosts: []string{s.Hostname, s.Hostname + ".pi.default.svc.cluster.local"},
		})
	}
	w.writeGang()
}

func (w *world) release() {
	w.t.Helper()
	w.gang.Release = true
	w.writeGang()
}

// orders are those of a pod with one container "main" that runs a shell script.
func (w *world) orders(uid, script string) spool.PodOrders {
	return spool.PodOrders{
		UID: uid, Namespace: "default", Name: "pi-" + uid, Hostname: "pi-worker-0",
		RestartPolicy: corev1.RestartPolicyNever, GraceSeconds: 5,
		Containers: []spool.ContainerOrders{shell("main", script)},
		SSH: spool.SSH{
			HostKey: w.keys.HostPrivate, ClientKey: w.keys.ClientPrivate,
			HostPublicKey: w.keys.HostPublic, ClientPublicKey: w.keys.ClientPublic,
		},
	}
}

func shell(name, script string) spool.ContainerOrders {
	return spool.ContainerOrders{
		Name: name, Argv: []string{"/bin/sh", "-c", script},
		TerminationMessagePath: "/dev/termination-log",
	}
}

// run binds a pod to a slot.
func (w *world) run(k int, o spool.PodOrders) {
	w.t.Helper()
	recipient := w.agentStatus(k).Recipient
	sealed, err := spool.Seal(recipient, o)
	require.NoError(w.t, err)
	w.write(w.dir.Desired(k), spool.Desired{
		Version: spool.Version, PodUID: o.UID, Pod: o.Namespace + "/" + o.Name,
		Action: spool.ActionRun, Recipient: recipient, Orders: sealed,
	})
}

func (w *world) stop(k int, uid string, grace int64) {
	w.t.Helper()
	w.write(w.dir.Desired(k), spool.Desired{
		Version: spool.Version, PodUID: uid, Action: spool.ActionStop, GraceSeconds: grace,
	})
}

// podWhere waits until a slot's pod is as asked for.
func (w *world) podWhere(k int, what string, is func(spool.PodStatus) bool) spool.PodStatus {
	w.t.Helper()
	var last *spool.PodStatus
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		var s spool.Status
		if _, err := spool.Read(w.dir.Status(k), &s); err == nil && s.Pod != nil && is(*s.Pod) {
			return *s.Pod
		} else if s.Pod != nil {
			last = s.Pod
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.FailNow(w.t, "the pod never was "+what, "slot %d: %+v", k, last)
	return spool.PodStatus{}
}

func (w *world) done(k int, uid string) spool.PodStatus {
	w.t.Helper()
	return w.podWhere(k, "done", func(p spool.PodStatus) bool { return p.UID == uid && p.Done })
}

func (w *world) running(k int, uid string) spool.PodStatus {
	w.t.Helper()
	return w.podWhere(k, "running", func(p spool.PodStatus) bool {
		return p.UID == uid && p.Containers[0].State.Running != nil
	})
}

// exitCode is the exit code of a pod's first container.
func exitCode(t *testing.T, p spool.PodStatus) int {
	t.Helper()
	require.NotEmpty(t, p.Containers, "%+v", p)
	require.NotNil(t, p.Containers[0].State.Terminated, "%+v", p)
	return int(p.Containers[0].State.Terminated.ExitCode)
}

// log is what a container printed to a stream in one of its runs.
func (w *world) log(k int, uid, container string, run int, stream string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.dir.Log(k, uid, container, run))
	require.NoError(w.t, err)
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(line, " ", 4)
		require.Len(w.t, parts, 4, "%q", line)
		_, err := time.Parse(time.RFC3339Nano, parts[0])
		require.NoError(w.t, err)
		if parts[1] == stream {
			text.WriteString(parts[3])
		}
	}
	return text.String()
}

// waitLog waits until a log holds a text.
func (w *world) waitLog(k int, uid, text string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		data, _ := os.ReadFile(w.dir.Log(k, uid, "main", 0))
		return bytes.Contains(data, []byte(text))
	}, 20*time.Second, 5*time.Millisecond)
}

// agentExit waits for an agent's end.
func (w *world) agentExit(task int) int {
	w.t.Helper()
	_ = w.agents[task].Wait()
	return w.agents[task].ProcessState.ExitCode()
}

func envVar(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }

// killInner kills the agent itself, not the process that entered the user
// namespace for it.
func (w *world) killInner(task int) {
	w.t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", w.agents[task].Process.Pid))
	require.NoError(w.t, err)
	for _, list := range lists {
		data, err := os.ReadFile(list)
		require.NoError(w.t, err)
		for _, text := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(text)
			require.NoError(w.t, err)
			require.NoError(w.t, unix.Kill(pid, unix.SIGKILL))
			return
		}
	}
	w.t.Fatal("the agent has no second process")
}
