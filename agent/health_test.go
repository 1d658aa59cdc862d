package agent_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gangline/gangline/provider/spool"
)

// everySecond is a probe that fails at its first failure.
func everySecond(h corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: h, TimeoutSeconds: 10, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1}
}

func command(argv ...string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: argv}}
}

func hookOf(h corev1.ProbeHandler) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: h.Exec, HTTPGet: h.HTTPGet}
}

// reasons are those of a pod's Events.
func reasons(p spool.PodStatus) []string {
	var list []string
	for _, e := range p.Events {
		list = append(list, e.Reason)
	}
	return list
}

// data gives a container a volume at /data that outlives its runs.
func data(o *spool.PodOrders) {
	o.Volumes = []spool.Volume{{Name: "data", EmptyDir: &spool.EmptyDir{}}}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "data", Path: "/data"}}
}

func TestHealthOfAPod(t *testing.T) {
	isReady := func(p spool.PodStatus) bool { return p.Containers[0].Ready }
	for sentence, test := range map[string]func(t *testing.T, w *world){
		"a command in the container's own root says that it is ready": func(t *testing.T, w *world) {
			o := w.orders("u", "until test -e /data/go; do sleep 0.05; done; touch /data/ready; exec sleep 100")
			data(&o)
			o.Containers[0].Env = []corev1.EnvVar{envVar("MARK", "/data/ready")}
			o.Containers[0].ReadinessProbe = everySecond(command("sh", "-c", "touch /data/go; test -e $MARK || { echo not yet; exit 1; }"))
			w.run(0, o)
			p := w.podWhere(0, "ready", isReady)
			if len(p.Events) > 0 {
				assert.Equal(t, "Readiness probe failed: not yet\n", p.Events[0].Message)
			}
		},
		"a server at the pod's address says that it is ready": func(t *testing.T, w *world) {
			var well atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if !well.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			defer server.Close()
			at, err := url.Parse(server.URL)
			require.NoError(t, err)
			port, err := strconv.Atoi(at.Port())
			require.NoError(t, err)
			o := w.orders("u", "exec sleep 100")
			o.Containers[0].ReadinessProbe = everySecond(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(port)}})
			w.run(0, o)
			p := w.podWhere(0, "unhealthy", func(p spool.PodStatus) bool { return len(p.Events) > 0 })
			assert.Equal(t, "Readiness probe failed: HTTP probe failed with statuscode: 503", p.Events[0].Message)
			assert.False(t, p.Containers[0].Ready)
			well.Store(true)
			w.podWhere(0, "ready", isReady)
			well.Store(false)
			w.podWhere(0, "unready", func(p spool.PodStatus) bool { return !isReady(p) })
		},
		"a container that fails its liveness probe starts again": func(t *testing.T, w *world) {
			o := w.orders("u", "trap 'echo ended; exit 0' TERM; echo began; while :; do sleep 0.05; done")
			data(&o)
			o.RestartPolicy = corev1.RestartPolicyOnFailure
			// It fails once.
			o.Containers[0].LivenessProbe = everySecond(command("sh", "-c", "test -e /data/once && exit; touch /data/once; exit 1"))
			o.Containers[0].LivenessProbe.InitialDelaySeconds = 1
			w.run(0, o)
			p := w.podWhere(0, "running again", func(p spool.PodStatus) bool {
				return p.Containers[0].RestartCount == 1 && p.Containers[0].State.Running != nil
			})
			assert.EqualValues(t, 0, p.Containers[0].LastTerminationState.Terminated.ExitCode)
			assert.Equal(t, "began\nended\n", w.log(0, "u", "main", 0, "stdout"), "it was told to end")
			assert.Equal(t, []string{"Unhealthy", "Killing"}, reasons(p))
		},
		"a probe's command that takes too long is a failure": func(t *testing.T, w *world) {
			o := w.orders("u", "exec sleep 100")
			o.Containers[0].LivenessProbe = everySecond(command("sh", "-c", "sleep 1000 & wait"))
			o.Containers[0].LivenessProbe.TimeoutSeconds = 1
			w.run(0, o)
			p := w.done(0, "u")
			assert.Equal(t, 143, exitCode(t, p))
			assert.Contains(t, p.Events[0].Message, "timed out after 1s")
		},
		"the hooks run in the container, before it is running and before it ends": func(t *testing.T, w *world) {
			o := w.orders("u", "trap 'cat /data/trace; exit 0' TERM; while :; do sleep 0.05; done")
			data(&o)
			o.Containers[0].Lifecycle = &corev1.Lifecycle{
				PostStart: hookOf(command("sh", "-c", "until test -e /proc/1; do sleep 0.05; done; echo began >>/data/trace")),
				PreStop:   hookOf(command("sh", "-c", "sleep 0.3; echo ends >>/data/trace")),
			}
			w.run(0, o)
			w.running(0, "u")
			w.stop(0, "u", 20)
			p := w.done(0, "u")
			assert.Equal(t, 0, exitCode(t, p))
			assert.Equal(t, "began\nends\n", w.log(0, "u", "main", 0, "stdout"))
			assert.Empty(t, p.Events)
		},
		"a container whose postStart hook fails is ended": func(t *testing.T, w *world) {
			o := w.orders("u", "exec sleep 100")
			o.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: hookOf(command("false"))}
			w.run(0, o)
			p := w.done(0, "u")
			assert.Equal(t, 143, exitCode(t, p))
			assert.Equal(t, []string{"FailedPostStartHook", "Killing"}, reasons(p))
		},
		"a hook that takes too long does not hold up the end": func(t *testing.T, w *world) {
			o := w.orders("u", "exec sleep 100")
			o.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: hookOf(command("sleep", "1000"))}
			w.run(0, o)
			w.running(0, "u")
			w.stop(0, "u", 3)
			p := w.done(0, "u")
			assert.Equal(t, 143, exitCode(t, p), "SIGTERM came before SIGKILL")
		},
	} {
		t.Run(sentence, func(t *testing.T) { test(t, single(t)) })
	}
}
