package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestOptions is about what pods can ask of their job, and what they hear of it while they
// wait and before its time is up. Its tests follow one another: some need all nodes.
func TestOptions(t *testing.T) {
	t.Parallel()
	env := environment(t, "options", "slurm", 2, func(c *provider.Config) {
		c.Slurm.AllowedFlags = []string{"exclude", "begin"}
		c.PriorityClasses = map[string]int{"gangline-low": 777}
		c.Resources = translate.DeviceResources{"example.com/h100": "gpu:h100", "example.com/mi300": "gpu:mi300"}
	})
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"what is wished for is in the job", wishesReachSlurm},
		{"what may not be wished for fails the pod", badWishes},
		{"what Slurm refuses is said in its words", slurmRefuses},
		{"a gang waits for another", waitsForAnother},
		{"pods in the queue say when they are expected to start", expectedStart},
		{"the time limit is announced", limitAnnounced},
		{"a container is not started again when the time is up", noRestartAtLimit},
		{"a new pod gets a new job when the time is up", nextAllocation},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

// scontrol runs scontrol as the administrator.
func (w *world) scontrol(args ...string) string {
	w.Helper()
	out, err := w.env.Slurm.Output(w.Context(), slurm.Head, append([]string{"scontrol"}, args...)...)
	require.NoError(w, err, out)
	return out
}

func (w *world) annotated(pod *corev1.Pod, annotations map[string]string) *corev1.Pod {
	pod.Annotations = annotations
	return pod
}

func wishesReachSlurm(w *world) {
	w.create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gangline-low"}, Value: 5})
	second := w.env.Slurm.Nodes()[1]
	w.scontrol("update", "node="+second, "features=ib")
	wished := w.annotated(w.makePod("wished", "echo $CUDA_VISIBLE_DEVICES; sleep 60", resources("1", "2")), map[string]string{
		wellknown.AnnotationTimeLimit:       "90m",
		wellknown.AnnotationNice:            "55",
		wellknown.AnnotationComment:         "Ada's third run",
		wellknown.AnnotationConstraint:      "ib",
		wellknown.AnnotationGPUType:         "h100",
		wellknown.AnnotationMaxNodes:        "1",
		wellknown.AnnotationSwitches:        "1@0:05:00",
		wellknown.AnnotationWCKey:           "thesis",
		wellknown.InterLinkPrefix + "flags": "--begin=now --exclude=" + w.env.Slurm.Nodes()[0],
	})
	low := w.makePod("low", "sleep 60", resources("1", "0"))
	low.Spec.PriorityClassName = "gangline-low"
	typed := w.makePod("typed", "sleep 60", resources("1", "0"))
	typed.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/h100": resource.MustParse("3")}
	w.create(wished, low, typed)

	for name, wants := range map[string][]string{
		"wished": {
			"TimeLimit=01:30:00", "Comment=gangline: Pod " + w.namespace + "/wished uid ", ": Ada's third run", "Features=ib",
			"Nice=55", "ExcNodeList=" + w.env.Slurm.Nodes()[0], "NodeList=" + second, "gpu:h100:2", "Switches=1@00:05:00",
		},
		"low":   {"Nice=777"},
		"typed": {"gpu:h100:3"},
	} {
		pod := w.waitPhase(name, corev1.PodRunning)
		job := w.scontrol("show", "job", pod.Annotations[wellknown.AnnotationJobID])
		for _, want := range wants {
			assert.Contains(w, job, want, name)
		}
	}
	w.eventually("the pod sees its two GPUs", func(context.Context) (bool, string) {
		out, err := w.kubectl("logs", "wished")
		return err == nil && containsAll(out, ","), out
	})
	w.must("delete", "pod", "wished", "low", "typed", "--wait=false")
	for _, name := range []string{"wished", "low", "typed"} {
		w.waitGone(name)
	}
	require.NoError(w, w.client.Delete(w.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "gangline-low"}}))
}

func badWishes(w *world) {
	for name, c := range map[string]struct{ annotation, value, says string }{
		"user":   {wellknown.SlurmBridgePrefix + "user-id", "0", "a pod cannot choose them"},
		"flags":  {wellknown.AnnotationSbatchFlags, "--array=1-100", "a gang is one job, and no array"},
		"closed": {wellknown.AnnotationSbatchFlags, "--hint=nomultithread", "It allows these: exclude, begin."},
		"type":   {wellknown.AnnotationGPUType, "v100", "Ask for one of these types: h100."},
	} {
		w.create(w.annotated(w.makePod(name, "true", resources("1", "0")), map[string]string{c.annotation: c.value}))
		pod := w.waitPhase(name, corev1.PodFailed)
		assert.Equal(w, wellknown.ReasonBadAnnotation, pod.Status.Reason, name)
		assert.Contains(w, pod.Status.Message, c.says, name)
	}
	unknown := w.annotated(w.makePod("misspelt", "true", resources("1", "0")), map[string]string{"gangline.dev/timelimit": "1h"})
	other := w.makePod("other-type", "true", resources("1", "0"))
	other.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/mi300": resource.MustParse("1")}
	w.create(unknown, other)
	w.waitEvent("misspelt", "Ignored", "it may be misspelt")
	// The scheduler knows that there is none.
	w.waitPod("other-type", "is not scheduled", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) > 0 && containsAll(p.Status.Conditions[0].Message, "Insufficient example.com/mi300")
	})
}

func slurmRefuses(w *world) {
	w.create(w.annotated(w.makePod("licence", "true", resources("1", "0")), map[string]string{wellknown.AnnotationLicenses: "ansys:2"}))
	w.waitPod("licence", "names Slurm's refusal", func(p *corev1.Pod) bool {
		return p.Status.Reason == wellknown.ReasonSubmissionFailed && containsAll(p.Status.Message, "Slurm cannot take the job", "icense")
	})
	w.must("delete", "pod", "licence")
}

func waitsForAnother(w *world) {
	w.create(w.annotated(w.makePod("after", "true", resources("1", "0")), map[string]string{
		wellknown.AnnotationDependsOn: "JobSet/before,afterany:Pod/broken",
	}))
	w.waitPod("after", "says for what it waits", func(p *corev1.Pod) bool {
		return p.Status.Reason == wellknown.ReasonWaitingForDependency && containsAll(p.Status.Message, "JobSet/before", "no job yet")
	})
	release := filepath.Join(w.env.Slurm.SharedDir(), "release-"+w.namespace)
	w.create(w.makePod("broken", "exit 3", resources("1", "0")),
		makeJobSet("before", w.replicated("worker", "until [ -e "+release+" ]; do sleep 0.2; done", 2, resources("1", "0"))))
	waits := w.waitPod("after", "waits in Slurm's queue", func(p *corev1.Pod) bool {
		return containsAll(p.Status.Message, "(Dependency)", "another job that it depends on")
	})
	before := w.waitAll("before", corev1.PodRunning, 2)
	assert.Contains(w, w.scontrol("show", "job", waits.Annotations[wellknown.AnnotationJobID]),
		"afterok:"+before[0].Annotations[wellknown.AnnotationJobID])
	_, err := w.kubectl("exec", before[0].Name, "--", "touch", release)
	require.NoError(w, err)
	w.waitPhase("after", corev1.PodSucceeded)

	w.create(w.annotated(w.makePod("never", "true", resources("1", "0")), map[string]string{wellknown.AnnotationDependsOn: "afterok:Pod/broken"}))
	w.waitPod("never", "says that the other has failed", func(p *corev1.Pod) bool {
		return containsAll(p.Status.Message, "ended in another way (failed)")
	})
	w.must("delete", "pod", "never")
}

func expectedStart(w *world) {
	wall := func(name string) *corev1.Pod {
		return w.annotated(w.makePod(name, "sleep 600", resources("8", "0")), map[string]string{wellknown.AnnotationTimeLimit: "10m"})
	}
	w.create(wall("wall-1"), wall("wall-2"))
	first := w.waitPhase("wall-1", corev1.PodRunning)
	w.waitPhase("wall-2", corev1.PodRunning)
	w.create(wall("queued"))
	queued := w.waitPod("queued", "says when it starts", func(p *corev1.Pod) bool {
		return p.Annotations[wellknown.AnnotationExpectedStart] != "" &&
			containsAll(p.Status.Message, "is PENDING", "expected to start at "+p.Annotations[wellknown.AnnotationExpectedStart])
	})
	at, err := time.Parse(time.RFC3339, queued.Annotations[wellknown.AnnotationExpectedStart])
	require.NoError(w, err)
	assert.WithinDuration(w, time.Now().Add(10*time.Minute), at, 3*time.Minute)
	w.must("delete", "pod", "wall-1", "wall-2", "--wait=false")
	started := w.waitPhase("queued", corev1.PodRunning)
	assert.NotContains(w, started.Annotations, wellknown.AnnotationExpectedStart, "it has started")
	w.must("delete", "pod", "queued")
	w.waitJobGone(*first, *started)
}

// endIn moves the end of a pod's job.
func (w *world) endIn(pod *corev1.Pod, seconds int) {
	w.Helper()
	w.scontrol("update", "jobid="+pod.Annotations[wellknown.AnnotationJobID], fmt.Sprintf("EndTime=now+%d", seconds))
}

// saves is a script that saves its work when it is asked to end.
func saves(marker string, code int) string {
	return fmt.Sprintf("trap 'echo saved >> %s; exit %d' TERM; echo ready; while :; do sleep 0.1; done", marker, code)
}

func limitAnnounced(w *world) {
	marker := func(name string) string { return filepath.Join(w.env.Slurm.SharedDir(), name+"-"+w.namespace) }
	limit := map[string]string{wellknown.AnnotationTimeLimit: "1h", wellknown.AnnotationTimeLimitWarning: "30s"}
	hooked := w.annotated(w.makePod("hooked", saves(marker("hooked"), 0), resources("1", "0")), limit)
	hooked.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "echo hook >> " + marker("hooked")}},
	}}
	unequal := w.replicated("b", saves(marker("gang"), 0), 1, resources("2", "0"))
	gang := makeJobSet("gang", w.replicated("a", saves(marker("gang"), 0), 1, resources("1", "0")), unequal)
	gang.Annotations = limit
	w.create(hooked, gang, w.annotated(w.makePod("plain", saves(marker("plain"), 7), resources("1", "0")), limit),
		w.annotated(w.makePod("deaf", "echo ready; sleep 600", resources("1", "0")), limit))
	for _, name := range []string{"hooked", "plain", "deaf"} {
		w.waitReadyLine(name)
		w.endIn(w.pod(name), 40)
	}
	for _, p := range w.waitAll("gang", corev1.PodRunning, 2) {
		w.waitReadyLine(p.Name)
	}
	w.endIn(&w.jobSetPods("gang")[0], 40)

	w.waitPhase("hooked", corev1.PodSucceeded)
	w.waitEvent("hooked", "TimeLimitNear", "reaches its time limit")
	w.eventually("the hook ran first", func(context.Context) (bool, string) {
		out, err := w.env.Slurm.Output(w.Context(), slurm.Head, "cat", marker("hooked"))
		return err == nil && out == "hook\nsaved", out
	})
	w.waitAll("gang", corev1.PodSucceeded, 2)
	for name, code := range map[string]int32{"plain": 7, "deaf": 143} {
		pod := w.waitPhase(name, corev1.PodFailed)
		assert.Equal(w, wellknown.ReasonDeadline, pod.Status.Reason, name)
		assert.Contains(w, pod.Status.Message, "time limit", name)
		assert.Equal(w, code, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode, name)
		w.waitJobGone(*pod)
	}
}

// waitReadyLine waits until the pod's script has said that it is ready.
func (w *world) waitReadyLine(name string) {
	w.Helper()
	w.eventually(name+" is ready", func(context.Context) (bool, string) {
		out, err := w.kubectl("logs", name)
		return err == nil && containsAll(out, "ready"), out
	})
}

func noRestartAtLimit(w *world) {
	pod := w.makePod("again", "echo ready; sleep 600", resources("1", "0"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	w.create(w.annotated(pod, map[string]string{wellknown.AnnotationTimeLimit: "1h", wellknown.AnnotationTimeLimitWarning: "50s"}))
	w.waitReadyLine("again")
	w.endIn(w.pod("again"), 60)
	ended := w.waitPhase("again", corev1.PodFailed)
	assert.Equal(w, wellknown.ReasonDeadline, ended.Status.Reason)
	assert.Zero(w, ended.Status.ContainerStatuses[0].RestartCount)
	w.waitJobGone(*ended)
}

func nextAllocation(w *world) {
	job := w.makeJob("restarted", "echo ready; sleep 600", resources("1", "0"))
	job.Spec.BackoffLimit = ptr.To[int32](3)
	job.Spec.Template.Annotations = map[string]string{wellknown.AnnotationTimeLimit: "1h", wellknown.AnnotationTimeLimitWarning: "50s"}
	w.create(job)
	pods := func() []corev1.Pod { return w.pods(batchv1.JobNameLabel, "restarted") }
	w.eventually("the Job's pod runs", func(context.Context) (bool, string) {
		p := pods()
		return len(p) == 1 && p[0].Status.Phase == corev1.PodRunning, fmt.Sprint(len(p))
	})
	first := pods()[0]
	w.waitReadyLine(first.Name)
	w.endIn(&first, 60)
	w.eventually("another pod runs in another job", func(context.Context) (bool, string) {
		for _, p := range pods() {
			if p.UID != first.UID && p.Status.Phase == corev1.PodRunning {
				return p.Annotations[wellknown.AnnotationJobID] != first.Annotations[wellknown.AnnotationJobID], "in the same job"
			}
		}
		return false, fmt.Sprint(len(pods()))
	})
	require.NoError(w, w.client.Delete(w.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.waitJobGone(first)
}
