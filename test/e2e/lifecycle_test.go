package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/translate/wellknown"
)

// TestLifecycle is how pods start, start again and end, and what their status tells
// of it: as with kubelet.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	env := environment(t, "lifecycle", "slurm", 2, nil)
	// It crashes a node, so the others begin after it.
	t.Run("a Job does not count what the infrastructure broke", func(t *testing.T) { disruptionIgnored(newWorld(t, env)) })
	runAll(t, env, map[string]func(*world){
		"a rule starts a container again by its exit code":       restartRule,
		"a rule starts all containers again":                     restartAllContainers,
		"a container that fails again and again is held back":    crashLoop,
		"a deadline may come while the pod runs":                 deadlineAdded,
		"a second delete shortens the grace period":              graceShortened,
		"a forced delete kills at once":                          forcedDelete,
		"a pod that is stopped ends by its exit codes":           endsByExitCodes,
		"sidecars end after the others, the last first":          sidecarOrder,
		"a resize is infeasible":                                 resizeInfeasible,
		"a readiness gate makes a pod ready":                     readinessGate,
		"the last words of a container":                          terminationMessages,
		"what a kubelet tells in Events":                         kubeletEvents,
		"a Job fails by its pods' exit codes":                    failsByExitCode,
		"a Job's back-off limit counts restarts":                 limitCountsRestarts,
		"a Job replaces a pod when nothing of it runs any more":  replacedWhenOver,
		"all that a status says of a container before it starts": statusBeforeTheStart,
	})
}

// small is a pod of one CPU.
func (w *world) small(name, script string) *corev1.Pod {
	return w.makePod(name, script, resources("1", "0"))
}

// kept gives a pod a finalizer of the test's, so that its last status can be read
// after it is deleted, and takes it off at the test's end.
func (w *world) kept(pod *corev1.Pod) *corev1.Pod {
	const finalizer = "test.gangline.dev/keep"
	pod.Finalizers = append(pod.Finalizers, finalizer)
	w.Cleanup(func() {
		pod := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
		patch := client.RawPatch("application/json-patch+json", []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`))
		if err := client.IgnoreNotFound(w.client.Patch(context.Background(), pod, patch)); err != nil {
			w.Errorf("letting go of the pod: %v", err)
		}
	})
	return pod
}

// marker is a file on the HPC side that pods write to.
func (w *world) marker(name string) string {
	return filepath.Join(w.env.Slurm.SharedDir(), name+"-"+w.namespace)
}

func (w *world) marked(path string) string {
	w.Helper()
	text, err := os.ReadFile(path)
	require.NoError(w, err)
	return string(text)
}

func restartRule(w *world) {
	pod := withData(w.small("again", "if test -e /data/ran; then exit 0; fi; touch /data/ran; exit 42"))
	main := &pod.Spec.Containers[0]
	main.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	main.RestartPolicyRules = []corev1.ContainerRestartRule{exitRule(corev1.ContainerRestartRuleActionRestart, 42)}
	w.create(pod)
	pod = w.waitPhase("again", corev1.PodSucceeded)
	status := pod.Status.ContainerStatuses[0]
	assert.EqualValues(w, 1, status.RestartCount)
	assert.EqualValues(w, 42, status.LastTerminationState.Terminated.ExitCode)
	assert.NotEqual(w, status.ContainerID, status.LastTerminationState.Terminated.ContainerID)

	other := w.small("once", "exit 41")
	other.Spec.Containers[0].RestartPolicy, other.Spec.Containers[0].RestartPolicyRules = main.RestartPolicy, main.RestartPolicyRules
	w.create(other)
	assert.Zero(w, w.waitPhase("once", corev1.PodFailed).Status.ContainerStatuses[0].RestartCount)
}

func exitRule(action corev1.ContainerRestartRuleAction, codes ...int32) corev1.ContainerRestartRule {
	return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: codes,
	}}
}

func restartAllContainers(w *world) {
	pod := w.small("whole", "echo run; until test -e /data/helper; do sleep 0.1; done; rm /data/helper; test -e /data/again && exit 0; touch /data/again; exit 42")
	main := &pod.Spec.Containers[0]
	main.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	main.RestartPolicyRules = []corev1.ContainerRestartRule{exitRule(corev1.ContainerRestartRuleActionRestartAllContainers, 42)}
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "setup", Image: "host", Command: []string{"sh", "-c", "echo setup >> /data/order"}},
		{Name: "helper", Image: "host", Command: []string{"sh", "-c", "touch /data/helper; exec sleep 600"}, RestartPolicy: &always},
	}
	w.create(withData(pod))
	pod = w.waitPhase("whole", corev1.PodSucceeded)
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		assert.EqualValues(w, 1, s.RestartCount, s.Name)
	}
	assert.EqualValues(w, 42, pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode)
	assert.Equal(w, "PodCompleted", podCondition(pod, corev1.AllContainersRestarting).Reason)
	w.waitEvent("whole", "Killing", "all containers start again after the end of main")
	assert.Equal(w, "run\n", w.must("logs", "whole", "--previous"))
}

func crashLoop(w *world) {
	pod := w.small("crash", "echo broken; exit 3")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w.create(pod)
	w.eventually("kubectl shows the back-off", func(context.Context) (bool, string) {
		out := w.must("get", "pod", "crash")
		return strings.Contains(out, "CrashLoopBackOff"), out
	})
	status := w.pod("crash").Status
	assert.Equal(w, corev1.PodRunning, status.Phase)
	assert.EqualValues(w, 3, status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode)
	w.waitEvent("crash", "BackOff", "Back-off restarting failed container main in pod crash_"+w.namespace)
	w.must("delete", "pod", "crash")
	w.waitGone("crash")
}

func deadlineAdded(w *world) {
	w.create(w.small("late", "exec sleep 600"))
	w.waitPhase("late", corev1.PodRunning)
	w.must("patch", "pod", "late", "-p", `{"spec":{"activeDeadlineSeconds":600}}`)
	w.must("patch", "pod", "late", "-p", `{"spec":{"activeDeadlineSeconds":1}}`)
	pod := w.waitPhase("late", corev1.PodFailed)
	assert.Equal(w, "DeadlineExceeded", pod.Status.Reason)
	assert.Equal(w, "Pod was active on the node longer than the specified deadline", pod.Status.Message)
	assert.EqualValues(w, 143, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	assert.Empty(w, podCondition(pod, corev1.DisruptionTarget).Type, "it is the user's own limit")
	w.waitEvent("late", "DeadlineExceeded", "longer than the specified deadline")
}

// stubborn is a pod that ends by SIGKILL alone.
func (w *world) stubborn(name string) *corev1.Pod {
	pod := w.small(name, "trap '' TERM; echo up; while :; do sleep 0.1; done")
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
	return pod
}

// waitUp waits until a pod handles signals.
func (w *world) waitUp(pod string) {
	w.Helper()
	w.waitPhase(pod, corev1.PodRunning)
	w.waitLog(pod, "up")
}

func graceShortened(w *world) {
	w.create(w.kept(w.stubborn("slow")))
	w.waitUp("slow")
	w.must("delete", "pod", "slow", "--wait=false")
	w.waitEvent("slow", "Killing", "grace period 3600 s")
	assert.Equal(w, corev1.PodRunning, w.pod("slow").Status.Phase)
	w.must("delete", "pod", "slow", "--grace-period=1", "--wait=false")
	pod := w.waitPhase("slow", corev1.PodFailed)
	assert.EqualValues(w, 137, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

func forcedDelete(w *world) {
	w.create(w.stubborn("force"))
	w.waitUp("force")
	w.must("delete", "pod", "force", "--force", "--grace-period=0")
	w.waitGone("force")
}

func endsByExitCodes(w *world) {
	w.create(
		w.kept(w.small("kind", "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done")),
		w.kept(w.small("unkind", "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done")),
	)
	for name, want := range map[string]struct {
		phase  corev1.PodPhase
		code   int32
		reason string
	}{
		"kind":   {corev1.PodSucceeded, 0, "PodCompleted"},
		"unkind": {corev1.PodFailed, 7, "PodFailed"},
	} {
		w.waitUp(name)
		w.must("delete", "pod", name, "--wait=false")
		pod := w.waitPhase(name, want.phase)
		assert.Equal(w, want.code, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
		assert.Equal(w, want.reason, podCondition(pod, corev1.PodReady).Reason)
		assert.Equal(w, want.reason, podCondition(pod, corev1.ContainersReady).Reason)
		assert.NotContains(w, pod.Finalizers, wellknown.Finalizer)
	}
}

func sidecarOrder(w *world) {
	always := corev1.ContainerRestartPolicyAlways
	pod := func(name, script string) (*corev1.Pod, string) {
		marker := w.marker(name)
		end := func(name string) string {
			return "trap 'sleep 0.5; echo " + name + " >> " + marker + "; exit 0' TERM; touch /data/" + name + "; while :; do sleep 0.1; done"
		}
		p := w.small(name, strings.ReplaceAll(script, "END", end("main")))
		for _, name := range []string{"first", "second"} {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
				Name: name, Image: "host", Command: []string{"sh", "-c", end(name)}, RestartPolicy: &always,
				StartupProbe: everySecond(exists("/data/" + name)),
			})
		}
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
		return withData(p), marker
	}
	completed, first := pod("completed", "echo main >> "+w.marker("completed"))
	deleted, second := pod("deleted", "END")
	deleted.Spec.Containers[0].ReadinessProbe = everySecond(exists("/data/main"))
	w.create(completed, deleted)
	w.waitPhase("completed", corev1.PodSucceeded)
	assert.Equal(w, "main\nsecond\nfirst\n", w.marked(first))
	w.waitPod("deleted", "is ready", isReady)
	w.must("delete", "pod", "deleted", "--wait=false")
	w.waitGone("deleted")
	assert.Equal(w, "main\nsecond\nfirst\n", w.marked(second))
}

func resizeInfeasible(w *world) {
	w.create(w.small("size", "exec sleep 600"))
	w.waitPhase("size", corev1.PodRunning)
	resize := func(cpu string) {
		w.must("patch", "pod", "size", "--subresource=resize", "-p",
			`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"`+cpu+`"}}}]}}`)
	}
	resize("2")
	pod := w.waitPod("size", "is told that it cannot grow", func(p *corev1.Pod) bool {
		return podCondition(p, corev1.PodResizePending).Status == corev1.ConditionTrue
	})
	c := podCondition(pod, corev1.PodResizePending)
	assert.Equal(w, corev1.PodReasonInfeasible, c.Reason)
	assert.Equal(w, pod.Generation, c.ObservedGeneration)
	assert.Equal(w, "1", pod.Status.ContainerStatuses[0].AllocatedResources.Cpu().String())
	assert.Zero(w, pod.Status.ContainerStatuses[0].RestartCount)
	w.waitEvent("size", "ResizeInfeasible", "an allocation keeps its size")
	resize("1")
	w.waitPod("size", "is as it was", func(p *corev1.Pod) bool { return podCondition(p, corev1.PodResizePending).Type == "" })
	w.must("delete", "pod", "size")
}

func readinessGate(w *world) {
	const licence = "site.example/licence"
	pod := w.small("gated", "exec sleep 600")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: licence}}
	w.create(pod)
	pod = w.waitPhase("gated", corev1.PodRunning)
	assert.Equal(w, corev1.ConditionTrue, podCondition(pod, corev1.ContainersReady).Status)
	assert.Equal(w, "ReadinessGatesNotReady", podCondition(pod, corev1.PodReady).Reason)
	w.must("patch", "pod", "gated", "--subresource=status", "-p", `{"status":{"conditions":[{"type":"`+licence+`","status":"True"}]}}`)
	w.must("wait", "--for=condition=Ready", "--timeout=60s", "pod/gated")
	assert.Equal(w, corev1.ConditionTrue, podCondition(w.pod("gated"), licence).Status, "it is another's, and stays")
	w.must("delete", "pod", "gated")
}

func terminationMessages(w *world) {
	pod := w.small("words", "echo 'by file' > /dev/termination-log")
	with := func(name, script string, policy corev1.TerminationMessagePolicy) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "host", Command: []string{"sh", "-c", script}, TerminationMessagePolicy: policy,
		})
	}
	with("by-log", "echo 'by log'; exit 1", corev1.TerminationMessageFallbackToLogsOnError)
	with("silent", "echo not told; exit 1", corev1.TerminationMessageReadFile)
	with("long", "seq 1 10000 > /dev/termination-log", corev1.TerminationMessageReadFile)
	w.create(pod)
	w.waitPhase("words", corev1.PodFailed)
	message := func(name string) string {
		return w.must("get", "pod", "words", "-o", `jsonpath={.status.containerStatuses[?(@.name=="`+name+`")].state.terminated.message}`)
	}
	assert.Equal(w, "by file\n", message("main"))
	assert.Equal(w, "by log\n", message("by-log"))
	assert.Empty(w, message("silent"))
	assert.Len(w, message("long"), 3<<10, "four containers share 12 KiB")
}

func kubeletEvents(w *world) {
	w.create(w.small("told", "exec sleep 600"))
	broken := w.small("nothing", "")
	broken.Spec.Containers[0].Command = []string{"/no/such/program"}
	w.create(broken)
	w.waitPhase("told", corev1.PodRunning)
	for _, reason := range []string{"Scheduled", "Started"} {
		w.waitEvent("told", reason, "")
	}
	w.must("delete", "pod", "told")
	w.waitEvent("told", "Killing", "Stopping container main")
	list := &corev1.EventList{}
	require.NoError(w, w.client.List(w.Context(), list, client.InNamespace(w.namespace)))
	for _, e := range list.Items {
		if e.InvolvedObject.Name == "told" && (e.Reason == "Started" || e.Reason == "Killing") {
			assert.Equal(w, "spec.containers{main}", e.InvolvedObject.FieldPath)
			assert.Equal(w, corev1.EventSource{Component: "gangline-node", Host: w.env.Name}, e.Source)
		}
	}
	pod := w.waitPhase("nothing", corev1.PodFailed)
	assert.Equal(w, "StartError", pod.Status.ContainerStatuses[0].State.Terminated.Reason)
	assert.EqualValues(w, 128, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	w.waitEvent("nothing", "Failed", "Error: ")
}
