package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/provider"
)

// TestLogs is kubectl logs, in all its forms.
func TestLogs(t *testing.T) {
	t.Parallel()
	env := environment(t, "logs", "local", 3, func(c *provider.Config) {
		c.ContainerLogMaxSize, c.ContainerLogMaxFiles = resource.MustParse("1Mi"), 8
	})
	runAll(t, env, map[string]func(*world){
		"every option shows what the model shows":         logsOptions,
		"odd bytes and lines arrive as they were written": logsOddLines,
		"the end of a long log is kept, file by file":     logsRotate,
		"a follower over many files loses no line":        logsFollowRotation,
		"a follower ends with the run it follows":         logsFollowRestart,
		"a follower that does not read holds nobody up":   logsStalledFollower,
		"previous is the run before":                      logsPrevious,
		"errors are kubelet's":                            logsErrors,
		"many pods and containers at once":                logsMany,
	})
	// It restarts the node, which would end the others' followers.
	t.Run("logs outlive the allocation, and go with the pod", func(t *testing.T) { logsAfterTheEnd(newWorld(t, env)) })
}

// hundred is 100 MB of lines of which each is another.
const hundred = `seq -f 'line %010.0f of a hundred megabytes, each of them a hundred bytes long, as long as programs write them.' 1000000`

// TestLongLogs reads what a site lets grow without limit.
func TestLongLogs(t *testing.T) {
	t.Parallel()
	env := environment(t, "longlogs", "local", 1, func(c *provider.Config) { c.ContainerLogMaxSize = resource.MustParse("-1") })
	w := newWorld(t, env)
	w.create(w.makePod("writer", hundred, resources("1", "0")))
	w.waitPhase("writer", corev1.PodSucceeded)
	want, err := exec.CommandContext(w.Context(), "sh", "-c", hundred+" | sha256sum").Output()
	require.NoError(w, err)
	began := time.Now()
	got, err := exec.CommandContext(w.Context(), "sh", "-c",
		fmt.Sprintf("KUBECONFIG=%s %s -n %s logs writer | sha256sum", control.Kubeconfig(), filepath.Join(root(), "bin", "kubectl"), w.namespace)).Output()
	require.NoError(w, err)
	w.Logf("100 MB by kubectl logs in %s", time.Since(began))
	assert.Equal(w, string(want), string(got))
	began = time.Now()
	assert.Contains(w, w.must("logs", "writer", "--tail=2"), "line 0001000000 of")
	w.Logf("its last 2 lines in %s", time.Since(began))
}

// logged are the lines of a container, with their times.
type logged struct {
	at   time.Time
	text string
}

// loggedBy asks for all lines with their times, in which every other answer can be
// found.
func (w *world) loggedBy(args ...string) []logged {
	w.Helper()
	var lines []logged
	for line := range strings.Lines(w.must(append([]string{"logs", "--timestamps"}, args...)...)) {
		stamp, text, ok := strings.Cut(line, " ")
		require.True(w, ok, line)
		at, err := time.Parse("2006-01-02T15:04:05.000000000Z", stamp)
		require.NoError(w, err)
		lines = append(lines, logged{at, text})
	}
	return lines
}

func texts(lines []logged) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
	}
	return b.String()
}

func logsOptions(w *world) {
	w.create(w.makePod("talker", `for i in $(seq 1 30); do echo out $i; echo err $i >&2; sleep 0.2; done; echo last`, resources("1", "0")))
	w.waitPhase("talker", corev1.PodSucceeded)
	lines := w.loggedBy("talker")
	require.Len(w, lines, 61)
	all := texts(lines)
	assert.Equal(w, all, w.must("logs", "talker"))
	for _, n := range []int{0, 1, 2, 17, 61, 1000} {
		assert.Equal(w, texts(lines[max(0, len(lines)-n):]), w.must("logs", "talker", fmt.Sprintf("--tail=%d", n)), n)
	}
	for _, n := range []int{1, 5, 100, 1 << 20} {
		assert.Equal(w, all[:min(n, len(all))], w.must("logs", "talker", fmt.Sprintf("--limit-bytes=%d", n)), n)
	}
	for _, l := range []logged{lines[0], lines[30], lines[60]} {
		since := l.at.Truncate(time.Second).Add(time.Second) // a whole second, as kubectl sends it
		var want []logged
		for _, other := range lines {
			if !other.at.Before(since) {
				want = append(want, other)
			}
		}
		assert.Equal(w, texts(want), w.must("logs", "talker", "--since-time="+since.Format(time.RFC3339)))
	}
	assert.Equal(w, all, w.must("logs", "talker", "--since=1h"))
	w.eventually("the lines are older than a second", func(context.Context) (bool, string) { return time.Since(lines[60].at) > time.Second, "" })
	assert.Empty(w, w.must("logs", "talker", "--since=1s"))
	assert.Equal(w, texts(lines[58:]), w.must("logs", "talker", "-f", "--tail=3"), "what has ended is not followed")

	// A stream of its own is asked for by the query. This API server's feature gate
	// for it (PodLogsQuerySplitStreams) is off, as it is by default.
	path := fmt.Sprintf("/containerLogs/%s/talker/main", w.namespace)
	streams := map[string]string{"?stream=All": all}
	for stream, with := range map[string]string{"Stdout": "err", "Stderr": "out"} {
		var want []logged
		for _, l := range lines {
			if !strings.HasPrefix(l.text, with) && (stream == "Stdout" || l.text != "last\n") {
				want = append(want, l)
			}
		}
		streams["?stream="+stream] = texts(want)
	}
	for query, want := range streams {
		code, got := w.nodeHTTP().get(path + query)
		assert.Equal(w, 200, code)
		assert.Equal(w, want, got, query)
	}
}

func logsOddLines(w *world) {
	// No end at the end, bytes that are no text, an empty line, and one of a megabyte.
	script := `printf 'a\000\377\rb\n\nc\td'; printf '\n'; head -c 300000 /dev/zero | tr '\0' x; echo; printf 'no end'`
	w.create(w.makePod("odd", script, resources("1", "0")))
	w.waitPhase("odd", corev1.PodSucceeded)
	want := "a\x00\xff\rb\n\nc\td\n" + strings.Repeat("x", 300000) + "\nno end\n"
	assert.True(w, want == w.must("logs", "odd"), "byte for byte, with an end at the end")
	assert.True(w, strings.Repeat("x", 300000)+"\nno end\n" == w.must("logs", "odd", "--tail=2"), "a long line is one line")
	stamped := w.must("logs", "odd", "--timestamps")
	assert.Equal(w, 5, strings.Count(stamped, "Z "), "and has one time")
}

// numbers are the lines of seq.
func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.String()
}

func logsRotate(w *world) {
	const count = 600000 // some 30 MB of log, and 8 files of 1 MiB are kept
	w.create(w.makePod("rotated", fmt.Sprintf("seq 1 %d", count), resources("1", "0")))
	w.waitPhase("rotated", corev1.PodSucceeded)
	got := w.must("logs", "rotated")
	var first int
	_, err := fmt.Sscan(got, &first)
	require.NoError(w, err)
	assert.Greater(w, first, 1, "the oldest are gone")
	assert.True(w, numbers(first, count) == got, "and nothing of the rest")
	assert.True(w, numbers(count-99999, count) == w.must("logs", "rotated", "--tail=100000"), "the end may be in several files")
	pod := w.pod("rotated")
	files, err := filepath.Glob(filepath.Join(w.env.Node.Spool(), "gangs", "*", "slots", "0", "logs", string(pod.UID), "main", "*"))
	require.NoError(w, err)
	assert.Len(w, files, 8)
}

func logsFollowRotation(w *world) {
	// In steps, so that the follower stands at ends of files, too.
	w.create(w.makePod("steps", `i=0; while [ $i -lt 30 ]; do seq $((i*10000+1)) $((i*10000+10000)); i=$((i+1)); sleep 0.2; done`, resources("1", "0")))
	w.waitPhase("steps", corev1.PodRunning)
	assert.True(w, numbers(1, 300000) == w.must("logs", "-f", "steps"), "each line once")
}

func logsFollowRestart(w *world) {
	pod := w.makePod("again", `echo begin; sleep 3; echo end; exit 1`, resources("1", "0"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w.create(pod)
	w.waitPhase("again", corev1.PodRunning)
	assert.Equal(w, "begin\nend\n", w.must("logs", "-f", "again"), "a follower stays with its run")
	w.waitPod("again", "runs again", func(p *corev1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount > 0 && p.Status.ContainerStatuses[0].State.Running != nil
	})
	assert.Equal(w, "begin\nend\n", w.must("logs", "-f", "again"), "and the next gets the next run")
	w.must("delete", "pod", "again", "--grace-period=1")
}

func logsStalledFollower(w *world) {
	w.create(w.makePod("busy", `sleep 1; seq 1 2000000; echo done >/tmp/$(hostname)-done; sleep 600`, resources("1", "0")))
	w.waitPhase("busy", corev1.PodRunning)
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	follower := exec.CommandContext(ctx, filepath.Join(root(), "bin", "kubectl"), "--kubeconfig", control.Kubeconfig(), "-n", w.namespace, "logs", "-f", "busy")
	pipe, err := follower.StdoutPipe()
	require.NoError(w, err)
	require.NoError(w, follower.Start())
	defer pipe.Close() //nolint:errcheck // nobody reads it
	w.eventually("the container has written all it has to", func(context.Context) (bool, string) {
		out, err := w.kubectl("exec", "busy", "--", "sh", "-c", "cat /tmp/$(hostname)-done && rm /tmp/$(hostname)-done")
		return err == nil && out == "done\n", out
	})
	assert.Equal(w, "2000000\n", w.must("logs", "busy", "--tail=1"), "and others see it")
	cancel()
	_ = follower.Wait()
	w.must("delete", "pod", "busy", "--grace-period=1")
}

func logsPrevious(w *world) {
	pod := w.makePod("crash", `echo run $(date +%s%N); exit 1`, resources("1", "0"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w.create(pod)
	w.waitPod("crash", "waits after its second run", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) > 0 && s[0].RestartCount == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	second := w.must("logs", "crash")
	assert.Equal(w, second, w.must("logs", "crash", "-p"), "while it waits, the last run is the one before")
	w.waitPod("crash", "waits after its third run", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses[0]
		return s.RestartCount == 2 && s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff"
	})
	assert.NotEqual(w, second, w.must("logs", "crash"))
	w.must("delete", "pod", "crash", "--grace-period=1")

	pod = w.makePod("restarted", `[ -e "$TMPDIR/seen" ] && exec sleep 600; echo first`, resources("1", "0"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Volumes = []corev1.Volume{{Name: "kept", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "kept", MountPath: "/kept"}}
	c.Command = []string{"sh", "-c", `if [ -e /kept/seen ]; then echo second; exec sleep 600; fi; touch /kept/seen; echo first`}
	w.create(pod)
	w.waitPod("restarted", "runs again", func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) > 0 && s[0].RestartCount == 1 && s[0].State.Running != nil
	})
	assert.Equal(w, "first\n", w.must("logs", "restarted", "--previous"))
	w.eventually("the second run speaks", func(context.Context) (bool, string) {
		out := w.must("logs", "restarted")
		return out == "second\n", out
	})
	w.must("delete", "pod", "restarted", "--grace-period=1")
}

func logsAfterTheEnd(w *world) {
	w.create(w.makePod("gone", "echo I was here", resources("1", "0")))
	pod := w.waitPhase("gone", corev1.PodSucceeded)
	logs := filepath.Join(w.env.Node.Spool(), "gangs", "*", "slots", "0", "logs", string(pod.UID))
	ended := func() []string {
		found, err := filepath.Glob(filepath.Join(logs, "..", "..", "..", "..", "ended.json"))
		require.NoError(w, err)
		return found
	}
	w.eventually("the allocation has ended", func(context.Context) (bool, string) { return len(ended()) > 0, "" })
	assert.Equal(w, "I was here\n", w.must("logs", "gone"))
	require.NoError(w, w.env.Node.Stop())
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.eventually("the next gangline-node shows it", func(context.Context) (bool, string) {
		out, err := w.kubectl("logs", "gone")
		return err == nil && out == "I was here\n", fmt.Sprint(out, err)
	})
	w.must("delete", "pod", "gone")
	w.eventually("the log is gone with the pod", func(context.Context) (bool, string) {
		found, err := filepath.Glob(logs)
		return err == nil && len(found) == 0, fmt.Sprint(found)
	})
}

func logsErrors(w *world) {
	w.create(w.makePod("talker", "echo hello; sleep 600", resources("1", "0")))
	blocked := w.makePod("blocked", "true", resources("1", "0"))
	blocked.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "host", Command: []string{"sh", "-c", "echo waiting; sleep 600"}}}
	w.create(blocked)
	missing := w.makePod("missing", "true", resources("1", "0"))
	missing.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "absent"}}}}
	w.create(missing)
	w.waitPhase("talker", corev1.PodRunning)
	w.waitPod("blocked", "is being initialised", func(p *corev1.Pod) bool {
		return len(p.Status.InitContainerStatuses) > 0 && p.Status.InitContainerStatuses[0].State.Running != nil
	})
	w.waitPod("missing", "waits", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	fails := func(says string, args ...string) {
		w.Helper()
		out, err := w.kubectl(args...)
		require.Error(w, err, args)
		assert.ErrorContains(w, err, says, args)
		assert.NotContains(w, out, "hello", args)
	}
	fails(`container "main" in pod "blocked" is waiting to start: PodInitializing`, "logs", "blocked")
	fails(`container "main" in pod "blocked" is waiting to start: PodInitializing`, "logs", "-f", "blocked")
	fails(`container "main" in pod "missing" is waiting to start: CreateContainerConfigError`, "logs", "missing")
	fails(`previous terminated container "main" in pod "talker" not found`, "logs", "-p", "talker")
	fails(`nobody`, "logs", "talker", "-c", "nobody")
	fails(`"absent" not found`, "logs", "absent")
	fails("must be greater than 0", "logs", "talker", "--limit-bytes=-1")
	assert.Equal(w, "waiting\n", w.must("logs", "blocked", "-c", "first"))
	out, err := w.kubectl("logs", "-f", "--ignore-errors", "blocked", "--all-containers", "--tail=1", "--request-timeout=3s", "--pod-running-timeout=1s")
	assert.Contains(w, out, "waiting\n", "%v", err)

	// What the node itself answers, past the API server's own checks.
	node := w.nodeHTTP()
	for query, code := range map[string]int{
		"talker/main":                     200,
		"talker/main?tailLines=x":         400,
		"talker/main?sinceTime=yesterday": 400,
		"talker/main?tailLines=-1":        422,
		"talker/main?limitBytes=0":        422,
		"talker/main?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z": 422,
		"talker/main?stream=neither":                                422,
		"talker/main?stream=Stdout&tailLines=1":                     422,
		"talker/main?previous=true":                                 400,
		"blocked/main":                                              400,
		"talker/nobody":                                             404,
		"absent/main":                                               404,
		"talker/" + url.PathEscape("../../../../etc/passwd"):        404,
	} {
		got, text := node.get("/containerLogs/" + w.namespace + "/" + query)
		assert.Equal(w, code, got, "%s: %s", query, text)
	}
	w.must("delete", "pod", "--all", "--grace-period=1")
}

func logsMany(w *world) {
	for i := range 3 {
		pod := w.makePod(fmt.Sprintf("web-%d", i), fmt.Sprintf("echo main %d", i), resources("1", "0"))
		pod.Labels = map[string]string{"app": "web"}
		side := pod.Spec.Containers[0]
		side.Name, side.Command = "side", []string{"sh", "-c", fmt.Sprintf("echo side %d", i)}
		pod.Spec.Containers = append(pod.Spec.Containers, side)
		w.create(pod)
	}
	for i := range 3 {
		w.waitPhase(fmt.Sprintf("web-%d", i), corev1.PodSucceeded)
	}
	out := w.must("logs", "-l", "app=web", "--all-containers", "--prefix")
	for i := range 3 {
		assert.Contains(w, out, fmt.Sprintf("[pod/web-%d/main] main %d\n", i, i))
		assert.Contains(w, out, fmt.Sprintf("[pod/web-%d/side] side %d\n", i, i))
	}
	assert.Equal(w, 6, strings.Count(out, "\n"))
	out = w.must("logs", "-l", "app=web", "-c", "side", "-f", "--max-log-requests=3", "--tail=1")
	assert.Equal(w, 3, strings.Count(out, "side "))
}
