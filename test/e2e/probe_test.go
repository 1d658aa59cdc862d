package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestProbes is what probes and hooks do to pods on the HPC side.
func TestProbes(t *testing.T) {
	t.Parallel()
	env := environment(t, "probes", "slurm", 2, nil)
	// It ends the provider, so the others begin after it.
	t.Run("a provider that starts anew tells what it missed, and nothing twice", func(t *testing.T) {
		toldOnce(newWorld(t, env))
	})
	runAll(t, env, map[string]func(*world){
		"a pod is Ready once its server answers":                 readyWhenAnswering,
		"a container that fails its liveness probe starts again": livenessRestarts,
		"a startup probe holds the liveness probe back":          startupGates,
		"a container that never starts up is ended":              startupFails,
		"a sidecar that is not ready keeps the pod from it":      sidecarReadiness,
		"hooks run after the start and before the end":           hooksRun,
		"a launcher comes when the workers' ports are open":      dependsOnReady,
	})
}

// everySecond is a probe that is tried every second and fails at the second
// failure.
func everySecond(h corev1.ProbeHandler) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: h, PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 2}
}

func command(argv ...string) corev1.ProbeHandler {
	return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: argv}}
}

func exists(path string) corev1.ProbeHandler { return command("test", "-e", path) }

// withData gives a pod's containers a directory /data that outlives their runs.
func withData(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/data"})
		}
	}
	return pod
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func isReady(pod *corev1.Pod) bool {
	return podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// toldOnce: what happens while no provider looks is told by the next one, and what
// was told is not told again.
func toldOnce(w *world) {
	marker := filepath.Join(w.env.Slurm.SharedDir(), "ready-"+w.namespace)
	pod := w.makePod("seen", "exec sleep 600", resources("1", "0"))
	pod.Spec.Containers[0].ReadinessProbe = everySecond(exists(marker))
	w.create(pod)
	w.waitEvent("seen", "Unhealthy", "Readiness probe failed")
	pod = w.pod("seen")
	agentSees := func(what string, is func(spool.PodStatus) bool) {
		w.Helper()
		dir := spool.Root(w.env.Node.Spool()).Dir(pod.Annotations[wellknown.AnnotationAllocation])
		w.eventually("the agent sees the pod "+what, func(context.Context) (bool, string) {
			var status spool.Status
			_, err := spool.Read(dir.Status(0), &status)
			return err == nil && status.Pod != nil && is(*status.Pod), fmt.Sprint(err, status.Pod)
		})
	}
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, os.WriteFile(marker, nil, 0o644))
	agentSees("ready", func(p spool.PodStatus) bool { return p.Containers[0].Ready })
	require.NoError(w, os.Remove(marker))
	agentSees("unhealthy", func(p spool.PodStatus) bool { return len(p.Events) == 2 })
	require.NoError(w, os.WriteFile(marker, nil, 0o644))
	agentSees("ready", func(p spool.PodStatus) bool { return p.Containers[0].Ready })
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.waitPod("seen", "is ready", isReady)
	w.eventually("both failures are told", func(context.Context) (bool, string) {
		events := w.events("seen")
		return strings.Count(events, "Unhealthy: ") == 2, events
	})
	w.must("delete", "pod", "seen")
	w.waitGone("seen")
	assert.Equal(w, 2, strings.Count(w.events("seen"), "Unhealthy: "), w.events("seen"))
}

func readyWhenAnswering(w *world) {
	pod := withData(w.makePod("server", "cd /data && exec python3 -m http.server 18080", resources("1", "0")))
	main := &pod.Spec.Containers[0]
	main.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 18080}}
	main.ReadinessProbe = everySecond(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("web")}})
	w.create(pod)
	w.waitPhase("server", corev1.PodRunning)
	w.waitEvent("server", "Unhealthy", "Readiness probe failed: ") // nobody listens yet, or 404
	pod = w.pod("server")
	status := pod.Status.ContainerStatuses[0]
	assert.True(w, *status.Started)
	assert.False(w, status.Ready)
	assert.False(w, isReady(pod))
	assert.Equal(w, "containers with unready status: [main]", podCondition(pod, corev1.ContainersReady).Message)

	w.must("exec", "server", "--", "touch", "/data/healthz")
	w.must("wait", "--for=condition=Ready", "--timeout=60s", "pod/server")
	w.must("exec", "server", "--", "rm", "/data/healthz")
	w.waitPod("server", "is not ready any more", func(p *corev1.Pod) bool { return !isReady(p) })
	assert.Zero(w, w.pod("server").Status.ContainerStatuses[0].RestartCount)
	w.must("delete", "pod", "server")
}

func livenessRestarts(w *world) {
	pod := withData(w.makePod("ill", "if test -e /data/ill; then rm /data/ill; exec sleep 3; fi; touch /data/ill; exec sleep 600", resources("1", "0")))
	pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	main := &pod.Spec.Containers[0]
	main.LivenessProbe = everySecond(command("sh", "-c", "test ! -e /data/ill || { echo quite ill; exit 1; }"))
	main.LivenessProbe.TerminationGracePeriodSeconds = ptr.To[int64](3)
	w.create(pod)
	pod = w.waitPod("ill", "has been started again", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	assert.EqualValues(w, 143, pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode)
	w.waitEvent("ill", "Unhealthy", "Liveness probe failed: quite ill")
	w.waitEvent("ill", "Killing", "Container main failed liveness probe, will be restarted")
	w.waitPhase("ill", corev1.PodSucceeded)
}

func startupGates(w *world) {
	pod := withData(w.makePod("slow", "exec sleep 600", resources("1", "0")))
	main := &pod.Spec.Containers[0]
	main.StartupProbe = everySecond(exists("/data/up"))
	main.StartupProbe.FailureThreshold = 600
	main.LivenessProbe = everySecond(exists("/data/up"))
	w.create(pod)
	w.waitEvent("slow", "Unhealthy", "Startup probe failed")
	pod = w.waitPhase("slow", corev1.PodRunning)
	assert.False(w, *pod.Status.ContainerStatuses[0].Started)
	assert.False(w, isReady(pod))
	w.must("exec", "slow", "--", "touch", "/data/up")
	pod = w.waitPod("slow", "is ready", isReady)
	assert.True(w, *pod.Status.ContainerStatuses[0].Started)
	assert.Zero(w, pod.Status.ContainerStatuses[0].RestartCount)
	assert.NotContains(w, w.events("slow"), "Liveness", "nobody asked before it had started")
	w.must("delete", "pod", "slow")
}

func startupFails(w *world) {
	pod := w.makePod("stuck", "exec sleep 600", resources("1", "0"))
	pod.Spec.Containers[0].StartupProbe = everySecond(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(18081)}})
	w.create(pod)
	pod = w.waitPhase("stuck", corev1.PodFailed)
	assert.EqualValues(w, 143, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	w.waitEvent("stuck", "Unhealthy", "connect: connection refused")
	w.waitEvent("stuck", "Killing", "Container main failed startup probe")
	w.waitJobGone(*pod)
}

func sidecarReadiness(w *world) {
	pod := w.makePod("pair", "exec sleep 600", resources("1", "0"))
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "helper", Image: "host", Command: []string{"sh", "-c", "sleep 2; touch /data/up; exec sleep 600"}, RestartPolicy: &always,
		StartupProbe:   &corev1.Probe{ProbeHandler: exists("/data/up"), PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 60},
		ReadinessProbe: everySecond(exists("/data/ready")),
	}}
	w.create(withData(pod))
	pod = w.waitPhase("pair", corev1.PodRunning)
	assert.Equal(w, corev1.ConditionTrue, podCondition(pod, corev1.PodInitialized).Status)
	assert.True(w, pod.Status.ContainerStatuses[0].Ready)
	assert.Equal(w, "containers with unready status: [helper]", podCondition(pod, corev1.PodReady).Message)
	w.must("exec", "pair", "--", "touch", "/data/ready")
	w.waitPod("pair", "is ready", isReady)
	w.must("delete", "pod", "pair")
}

func hooksRun(w *world) {
	marker := filepath.Join(w.env.Slurm.SharedDir(), "hooks-"+w.namespace)
	note := func(text string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 1; echo " + text + " >> " + marker}}}
	}
	pod := w.makePod("hooked", "trap 'echo ended >> "+marker+"; exit 0' TERM; while :; do sleep 0.1; done", resources("1", "0"))
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: note("began"), PreStop: note("ends")}
	w.create(pod)
	w.waitPod("hooked", "is ready", isReady)
	text, err := os.ReadFile(marker)
	require.NoError(w, err)
	assert.Equal(w, "began\n", string(text), "the hook came first")
	w.must("delete", "pod", "hooked", "--wait=false")
	w.waitGone("hooked")
	text, err = os.ReadFile(marker)
	require.NoError(w, err)
	assert.Equal(w, "began\nends\nended\n", string(text))

	pod = w.makePod("unhooked", "exec sleep 600", resources("1", "0"))
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
		HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(18082)},
	}}
	w.create(pod)
	w.waitPhase("unhooked", corev1.PodFailed)
	w.waitEvent("unhooked", "FailedPostStartHook", "PostStartHook failed")
}

func dependsOnReady(w *world) {
	marker := filepath.Join(w.env.Slurm.SharedDir(), "open-"+w.namespace)
	worker := w.replicated("worker", "until test -e "+marker+"; do sleep 0.1; done; exec python3 -m http.server 18083", 2, resources("5", "0"))
	worker.Template.Spec.Template.Spec.Containers[0].ReadinessProbe = everySecond(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(18083)}})
	launcher := w.replicated("launcher", `set -e
for i in 0 1; do python3 -c "import socket; socket.create_connection(('open-worker-0-$i.open', 18083))"; done
echo both answer`, 1, resources("500m", "0"))
	launcher.DependsOn = []jobset.DependsOn{{Name: "worker", Status: jobset.DependencyReady}}
	js := makeJobSet("open", worker, launcher)
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	w.create(js)
	for _, p := range w.waitAll("open", corev1.PodRunning, 2) {
		w.waitEvent(p.Name, "Unhealthy", "connection refused")
	}
	assert.Empty(w, w.pods(jobset.ReplicatedJobNameKey, "launcher"), "running is not ready")
	require.NoError(w, os.WriteFile(marker, nil, 0o644))
	w.waitJobSet("open", jobset.JobSetCompleted)
	pods := w.jobSetPods("open")
	launchers := w.pods(jobset.ReplicatedJobNameKey, "launcher")
	require.Len(w, launchers, 1)
	assert.Equal(w, "both answer\n", w.must("logs", launchers[0].Name))
	for _, p := range pods {
		assert.Equal(w, launchers[0].Annotations[wellknown.AnnotationJobID], p.Annotations[wellknown.AnnotationJobID])
	}
	w.waitJobGone(pods...)
}
