package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// single is one slot with its agent, whose names are known.
func single(t *testing.T, env ...string) *world {
	t.Helper()
	w := newWorld(t, [][]int{{0}}, env...)
	w.publishNames()
	return w
}

func TestPodsOfOneSlot(t *testing.T) {
	for sentence, test := range map[string]func(t *testing.T, w *world){
		"a stop lets a container end by itself": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"))
			w.waitLog(0, "u", "ready")
			w.stop(0, "u", 20)
			assert.Equal(t, 7, exitCode(t, w.done(0, "u")))
			assert.Equal(t, "ready\nbye\n", w.log(0, "u", "main", 0, "stdout"))
		},
		"a container that ignores the stop is killed when its grace is over": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
			w.waitLog(0, "u", "ready")
			began := time.Now()
			w.stop(0, "u", 0)
			assert.Equal(t, 137, exitCode(t, w.done(0, "u")))
			assert.Greater(t, time.Since(began), 2*time.Second)
			assert.Less(t, time.Since(began), 10*time.Second)
		},
		"the end of a container leaves one alone whose name begins with its run's": func(t *testing.T, w *world) {
			o := w.orders("u", "exit 0")
			o.Containers = append(o.Containers, shell("main-0", "until test -e /all/go; do sleep 0.05; done; exit 5"))
			o.Volumes = []spool.Volume{{Name: "all", EmptyDir: &spool.EmptyDir{}}}
			o.Containers[1].Mounts = []spool.Mount{{Volume: "all", Path: "/all"}}
			w.run(0, o)
			w.podWhere(0, "half over", func(p spool.PodStatus) bool { return p.Containers[0].State.Terminated != nil })
			volumes := filepath.Join(w.disk, "gangline-"+strconv.Itoa(os.Getuid()), "pi-1-0", "u", "volumes")
			require.NoError(t, os.WriteFile(filepath.Join(volumes, "all", "go"), nil, 0o644))
			assert.EqualValues(t, 5, w.done(0, "u").Containers[1].State.Terminated.ExitCode)
		},
		"a process without the pod's environment ends with its pod": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", hiding("")))
			w.done(0, "u")
			assertGone(t, w.log(0, "u", "main", 0, "stdout"))
		},
		"a process that writes on for ever holds up nothing": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "env -i setsid sh -c 'while :; do echo x; sleep 0.1; done' & exit 0"))
			assert.Equal(t, 0, exitCode(t, w.done(0, "u")))
		},
		"a FIFO in the place of the termination message holds up nothing": func(t *testing.T, w *world) {
			o := w.orders("u", "cd $DIR && rm main && mkfifo main")
			o.Containers[0].Env = []corev1.EnvVar{envVar("DIR", filepath.Join(w.memory, "pi-1-0", "u", "termination"))}
			w.run(0, o)
			assert.Equal(t, 0, exitCode(t, w.done(0, "u")), w.log(0, "u", "main", 0, "stderr"))
		},
		"a stop that comes again may shorten the grace": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
			w.waitLog(0, "u", "ready")
			w.stop(0, "u", 3600)
			w.running(0, "u")
			w.stop(0, "u", 2)
			assert.Equal(t, 137, exitCode(t, w.done(0, "u")))
		},
		"nothing is started again after a stop": func(t *testing.T, w *world) {
			o := w.orders("u", "echo ready; exec sleep 100")
			o.RestartPolicy = corev1.RestartPolicyAlways
			w.run(0, o)
			w.waitLog(0, "u", "ready")
			w.stop(0, "u", 5)
			p := w.done(0, "u")
			assert.Equal(t, 143, exitCode(t, p))
			assert.Zero(t, p.Containers[0].RestartCount)
		},
		"a daemon dies with its container, and does not hold up its end": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "setsid sh -c 'echo $$ >/dev/termination-log; exec sleep 1000' & sleep 0.3; echo main; exit 0"))
			began := time.Now()
			p := w.done(0, "u")
			assert.Less(t, time.Since(began), 5*time.Second)
			assert.Equal(t, 0, exitCode(t, p))
			pid, err := strconv.Atoi(strings.TrimSpace(p.Containers[0].State.Terminated.Message))
			require.NoError(t, err)
			assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
		},
		"a log of 100,000 lines is complete and in order": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "seq 1 100000"))
			w.done(0, "u")
			var want strings.Builder
			for i := 1; i <= 100000; i++ {
				fmt.Fprintln(&want, i)
			}
			assert.Equal(t, want.String(), w.log(0, "u", "main", 0, "stdout"))
		},
		"a line reaches the log while the container runs": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "echo now; exec sleep 100"))
			w.waitLog(0, "u", "stdout F now\n")
			w.stop(0, "u", 5)
			w.done(0, "u")
		},
		"on failure a container starts again, with a log of its own and its volumes kept": func(t *testing.T, w *world) {
			o := w.orders("u", "n=$(cat /data/n 2>/dev/null || echo 0); echo run $n; echo $((n+1)) >/data/n; [ $n = 1 ]")
			o.RestartPolicy = corev1.RestartPolicyOnFailure
			o.Volumes = []spool.Volume{{Name: "data", EmptyDir: &spool.EmptyDir{}}}
			o.Containers[0].Mounts = []spool.Mount{{Volume: "data", Path: "/data"}}
			w.run(0, o)
			p := w.done(0, "u")
			assert.Equal(t, 0, exitCode(t, p))
			assert.EqualValues(t, 1, p.Containers[0].RestartCount)
			assert.EqualValues(t, 1, p.Containers[0].LastTerminationState.Terminated.ExitCode)
			assert.Equal(t, "run 0\n", w.log(0, "u", "main", 0, "stdout"))
			assert.Equal(t, "run 1\n", w.log(0, "u", "main", 1, "stdout"))
		},
		"a container that fails again and again is held back": func(t *testing.T, w *world) {
			o := w.orders("u", "exit 1")
			o.RestartPolicy = corev1.RestartPolicyAlways
			w.run(0, o)
			p := w.podWhere(0, "backing off", func(p spool.PodStatus) bool {
				s := p.Containers[0].State.Waiting
				return s != nil && s.Reason == "CrashLoopBackOff"
			})
			assert.EqualValues(t, 1, p.Containers[0].RestartCount)
			w.stop(0, "u", 5)
			assert.Equal(t, 1, exitCode(t, w.done(0, "u")))
		},
		"init containers, a sidecar and two main containers": func(t *testing.T, w *world) {
			o := w.orders("u", "cat /shared/order; sleep 0.2; echo main-out")
			o.Containers = append(o.Containers, shell("second", "exit 4"))
			always := corev1.ContainerRestartPolicyAlways
			helper := shell("helper", "echo helper >>/shared/order; trap 'exit 0' TERM; while :; do sleep 0.05; done")
			helper.RestartPolicy = &always
			o.InitContainers = []spool.ContainerOrders{shell("one", "sleep 0.2; echo one >>/shared/order"), helper, shell("two", "sleep 0.2; echo two >>/shared/order")}
			o.Volumes = []spool.Volume{{Name: "shared", EmptyDir: &spool.EmptyDir{Memory: true}}}
			for _, list := range [][]spool.ContainerOrders{o.InitContainers, o.Containers} {
				for i := range list {
					list[i].Mounts = []spool.Mount{{Volume: "shared", Path: "/shared"}}
				}
			}
			w.run(0, o)
			p := w.done(0, "u")
			assert.Equal(t, "one\nhelper\ntwo\nmain-out\n", w.log(0, "u", "main", 0, "stdout"))
			assert.EqualValues(t, 4, p.Containers[1].State.Terminated.ExitCode)
			assert.Equal(t, "Completed", p.InitContainers[0].State.Terminated.Reason)
			assert.EqualValues(t, 0, p.InitContainers[1].State.Terminated.ExitCode)
			assert.Zero(t, p.InitContainers[1].RestartCount)
		},
		"a program that does not exist is a start error": func(t *testing.T, w *world) {
			o := w.orders("u", "")
			o.Containers[0].Argv = []string{"foo"}
			w.run(0, o)
			p := w.done(0, "u")
			assert.Equal(t, 128, exitCode(t, p))
			end := p.Containers[0].State.Terminated
			assert.Equal(t, "StartError", end.Reason)
			assert.Equal(t, `exec: "foo": executable file not found in $PATH`, end.Message)
		},
		"the termination message is what the container wrote": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "printf 'loss 0.1' >/dev/termination-log"))
			assert.Equal(t, "loss 0.1", w.done(0, "u").Containers[0].State.Terminated.Message)
		},
		"the termination message falls back to the log's end on an error": func(t *testing.T, w *world) {
			o := w.orders("u", "echo out; echo 'Traceback: no luck' >&2; exit 1")
			o.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			w.run(0, o)
			message := w.done(0, "u").Containers[0].State.Terminated.Message
			assert.Contains(t, message, "Traceback: no luck\n")
			assert.Contains(t, message, "out\n")
		},
		"a working directory that does not exist is made": func(t *testing.T, w *world) {
			o := w.orders("u", "touch x && pwd")
			o.Containers[0].WorkingDir = "/workspace/deep"
			w.run(0, o)
			assert.Equal(t, 0, exitCode(t, w.done(0, "u")))
			assert.Equal(t, "/workspace/deep\n", w.log(0, "u", "main", 0, "stdout"))
			assert.NoDirExists(t, "/workspace/deep")
		},
		"a volume's parts": func(t *testing.T, w *world) {
			host := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(host, "data"), []byte("host"), 0o644))
			require.NoError(t, os.Chmod(host, 0o755))
			o := w.orders("u", "cat /opt/a.conf /host/data; touch /empty/x; ! touch /opt/a.conf 2>/dev/null; ! touch /host/new 2>/dev/null; stat -c %a /empty /all")
			o.Volumes = []spool.Volume{
				{Name: "conf", Files: []spool.File{{Path: "a", Mode: 0o644, Data: []byte("a")}, {Path: "b", Mode: 0o644}}},
				{Name: "empty", EmptyDir: &spool.EmptyDir{}},
				{Name: "host", HostPath: host},
			}
			o.Containers[0].Mounts = []spool.Mount{
				{Volume: "conf", Path: "/opt/a.conf", SubPath: "a"},
				{Volume: "empty", Path: "/empty", SubPath: "made/here"},
				{Volume: "empty", Path: "/all"},
				{Volume: "host", Path: "/host", ReadOnly: true},
			}
			w.run(0, o)
			assert.Equal(t, 0, exitCode(t, w.done(0, "u")), w.log(0, "u", "main", 0, "stderr"))
			assert.Equal(t, "ahost777\n777\n", w.log(0, "u", "main", 0, "stdout"))
			assert.NoFileExists(t, filepath.Join(host, "new"))
		},
		"a subPath that leaves its volume is a start error": func(t *testing.T, w *world) {
			o := w.orders("u", "true")
			o.Volumes = []spool.Volume{{Name: "v", EmptyDir: &spool.EmptyDir{}}}
			o.Containers[0].Mounts = []spool.Mount{{Volume: "v", Path: "/v", SubPath: "../../x"}}
			w.run(0, o)
			end := w.done(0, "u").Containers[0].State.Terminated
			assert.Equal(t, "StartError", end.Reason)
			assert.Equal(t, `mounting /v: subPath "../../x" leaves its volume`, end.Message)
		},
		"a new pod takes the slot after the old one's end, and each runs once": func(t *testing.T, w *world) {
			w.run(0, w.orders("a", "echo a"))
			assert.Equal(t, 0, exitCode(t, w.done(0, "a")))
			w.run(0, w.orders("b", "echo b; exit 2"))
			assert.Equal(t, 2, exitCode(t, w.done(0, "b")))
			w.run(0, w.orders("a", "echo again"))
			w.run(0, w.orders("c", "echo c"))
			w.done(0, "c")
			assert.Equal(t, "a\n", w.log(0, "a", "main", 0, "stdout"))
		},
		"a pod that another takes the place of is stopped first": func(t *testing.T, w *world) {
			w.run(0, w.orders("a", "trap 'sleep 0.3; exit 9' TERM; echo ready; while :; do sleep 0.05; done"))
			w.waitLog(0, "a", "ready")
			w.run(0, w.orders("b", "true"))
			w.done(0, "b")
			assert.NoDirExists(t, filepath.Join(w.memory, "pi-1-0", "a"))
		},
		"a stop of a pod that never came ends it": func(t *testing.T, w *world) {
			w.stop(0, "u", 5)
			p := w.done(0, "u")
			assert.Empty(t, p.Containers)
			assert.Empty(t, p.Reason)
		},
		"orders that cannot be read fail the pod": func(t *testing.T, w *world) {
			require.NoError(t, spool.Write(w.dir.Desired(0), spool.Desired{
				Version: 1, PodUID: "u", Action: spool.ActionRun, Recipient: w.agentStatus(0).Recipient, Orders: []byte("x")}))
			p := w.done(0, "u")
			assert.Equal(t, wellknown.ReasonInvalidOrders, p.Reason)
			assert.Contains(t, p.Message, "opening sealed orders")
		},
		"a pod or container that has no proper name runs nothing": func(t *testing.T, w *world) {
			keep := filepath.Join(w.memory, "keep")
			require.NoError(t, os.Mkdir(keep, 0o700))
			w.stop(0, "../keep", 5)
			o := w.orders("u", "true")
			o.Containers[0].Name = "../../x"
			w.run(0, o)
			assert.Equal(t, wellknown.ReasonInvalidOrders, w.done(0, "u").Reason)
			assert.DirExists(t, keep)
		},
		"new names reach a pod that runs": func(t *testing.T, w *world) {
			w.run(0, w.orders("u", "echo ready; until getent hosts newcomer; do sleep 0.05; done"))
			w.waitLog(0, "u", "ready")
			w.gang.Names[0].Hosts = append(w.gang.Names[0].Hosts, "newcomer")
			w.writeGang()
			assert.Equal(t, 0, exitCode(t, w.done(0, "u")))
		},
		"a pod's own variables win over the node's, but for devices, which it counts from 0": func(t *testing.T, w *world) {
			o := w.orders("u", "echo $PATH $HOME $CUDA_VISIBLE_DEVICES")
			o.Containers[0].Env = []corev1.EnvVar{{Name: "PATH", Value: "/opt/bin"}, {Name: "HOME", Value: "/root"}, {Name: "CUDA_VISIBLE_DEVICES", Value: "0"}}
			w.run(0, o)
			w.done(0, "u")
			assert.Equal(t, "/run/gangline/bin:/opt/bin /root 3\n", w.log(0, "u", "main", 0, "stdout"))
		},
	} {
		t.Run(sentence, func(t *testing.T) { test(t, single(t)) })
	}
}

func TestOrdersThatAreSealedToAnotherAgentWait(t *testing.T) {
	w := newWorld(t, [][]int{{0, 1}})
	w.publishNames()
	other, err := spool.NewKey()
	require.NoError(t, err)
	sealed, err := spool.Seal(other.Recipient(), w.orders("u", "true"))
	require.NoError(t, err)
	w.write(w.dir.Desired(0), spool.Desired{
		Version: spool.Version, PodUID: "u", Action: spool.ActionRun, Recipient: other.Recipient(), Orders: sealed})
	// The agent looks at the slots' orders in turn: once it has seen two more of the
	// other slot's, it has seen these.
	for _, uid := range []string{"a", "b"} {
		w.run(1, w.orders(uid, "true"))
		w.done(1, uid)
	}
	var s spool.Status
	_, err = spool.Read(w.dir.Status(0), &s)
	require.NoError(t, err)
	assert.Nil(t, s.Pod)
	w.run(0, w.orders("u", "exit 5"))
	assert.Equal(t, 5, exitCode(t, w.done(0, "u")))
}

// hiding is a script that leaves a process in another session, with another
// environment, and prints its number.
func hiding(env string) string {
	return "env -i " + env + " setsid sleep 1000 </dev/null >/dev/null 2>&1 & " +
		"until test \"$(cat /proc/$!/comm)\" = sleep; do sleep 0.01; done; echo $!"
}

func assertGone(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
}

// What a command line holds must not make a report that the node refuses to read.
func TestTheMessageOfAFailedStartIsBounded(t *testing.T) {
	w := single(t)
	o := w.orders("long", "")
	o.Containers[0].Argv = []string{"/" + strings.Repeat("\x01", 120<<10)}
	w.run(0, o)
	end := w.done(0, "long").Containers[0].State.Terminated
	require.NotNil(t, end)
	assert.Equal(t, "StartError", end.Reason)
	assert.NotEmpty(t, end.Message)
	assert.LessOrEqual(t, len(end.Message), 12<<10)
}
