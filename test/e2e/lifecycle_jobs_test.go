package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/translate/wellknown"
)

// waitJob waits until a Job has a condition, and returns it.
func (w *world) waitJob(name string, kind batchv1.JobConditionType) batchv1.JobCondition {
	w.Helper()
	var found batchv1.JobCondition
	w.eventually(fmt.Sprintf("Job %s is %s", name, kind), func(ctx context.Context) (bool, string) {
		job := &batchv1.Job{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, job); err != nil {
			return false, err.Error()
		}
		for _, c := range job.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				found = c
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", job.Status)
	})
	return found
}

// jobPods are the pods of a Job.
func (w *world) jobPods(name string) []corev1.Pod { return w.pods(batchv1.JobNameLabel, name) }

// waitJobPod waits until a Job has a pod in a phase that is not one of those.
func (w *world) waitJobPod(name string, phase corev1.PodPhase, not ...string) *corev1.Pod {
	w.Helper()
	var found *corev1.Pod
	w.eventually(fmt.Sprintf("Job %s has a pod that is %s", name, phase), func(context.Context) (bool, string) {
		seen := ""
		for _, p := range w.jobPods(name) {
			seen += fmt.Sprintf("%s %s %q; ", p.Name, p.Status.Phase, p.Status.Message)
			if p.Status.Phase == phase && !strings.Contains(strings.Join(not, " "), p.Name) {
				found = &p
				return true, ""
			}
		}
		return false, seen
	})
	return found
}

func disruptionIgnored(w *world) {
	job := w.makeJob("sturdy", "test -e "+w.marker("sturdy")+" && exit 0; touch "+w.marker("sturdy")+"; exec sleep 600", resources("1", "0"))
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		},
		{
			Action:      batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{0}},
		},
	}}
	w.create(job)
	pod := w.waitJobPod("sturdy", corev1.PodRunning)
	node := pod.Annotations[wellknown.AnnotationHPCNode]
	w.waitMarker("sturdy")
	require.NoError(w, w.env.Slurm.Crash(w.Context(), node))
	w.waitJob("sturdy", batchv1.JobComplete) // though its back-off limit is 0
	for _, p := range w.jobPods("sturdy") {
		if p.Name == pod.Name {
			assert.Equal(w, wellknown.ReasonNodeFailure, p.Status.Reason)
			c := podCondition(&p, corev1.DisruptionTarget)
			assert.Equal(w, corev1.ConditionTrue, c.Status)
			assert.Equal(w, corev1.PodReasonTerminationByKubelet, c.Reason)
			assert.NotZero(w, p.Status.ContainerStatuses[0].State.Terminated.ExitCode)
		}
	}
	require.NoError(w, w.env.Slurm.Restart(w.Context(), node))
}

// waitMarker waits until a pod has made a file of the test's.
func (w *world) waitMarker(name string) {
	w.Helper()
	w.eventually("the pod has left its mark", func(context.Context) (bool, string) { return fileExists(w.marker(name)), "" })
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func failsByExitCode(w *world) {
	job := w.makeJob("picky", "exit 42", resources("1", "0"))
	job.Spec.BackoffLimit = ptr.To[int32](6)
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: ptr.To("main"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42},
		},
	}}}
	w.create(job)
	c := w.waitJob("picky", batchv1.JobFailed)
	assert.Equal(w, batchv1.JobReasonPodFailurePolicy, c.Reason)
	assert.Contains(w, c.Message, "exit code 42")
	assert.Len(w, w.jobPods("picky"), 1, "it was not tried again")
}

func limitCountsRestarts(w *world) {
	job := w.makeJob("stubborn", "exit 1", resources("1", "0"))
	job.Spec.BackoffLimit = ptr.To[int32](1)
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	w.create(job)
	c := w.waitJob("stubborn", batchv1.JobFailed)
	assert.Equal(w, batchv1.JobReasonBackoffLimitExceeded, c.Reason)
	w.eventually("its pod is gone", func(context.Context) (bool, string) {
		pods := w.jobPods("stubborn")
		return len(pods) == 0, fmt.Sprint(len(pods))
	})
}

func replacedWhenOver(w *world) {
	lock, overlap := w.marker("lock"), w.marker("overlap")
	job := w.makeJob("single", "mkdir "+lock+" || touch "+overlap+"; trap 'sleep 3; rmdir "+lock+"; exit 1' TERM; while :; do sleep 0.1; done", resources("1", "0"))
	job.Spec.BackoffLimit = ptr.To[int32](6)
	job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	job.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	w.create(job)
	first := w.waitJobPod("single", corev1.PodRunning)
	w.waitMarker("lock")
	w.must("delete", "pod", first.Name, "--wait=false")
	w.eventually("the Job waits for its pod's end", func(context.Context) (bool, string) {
		out := w.must("get", "job", "single", "-o", "jsonpath={.status.terminating}")
		return out == "1", out
	})
	second := w.waitJobPod("single", corev1.PodRunning, first.Name)
	assert.NotEqual(w, first.UID, second.UID)
	w.waitMarker("lock")
	assert.False(w, fileExists(overlap), "two of them ran at once")
	w.must("delete", "job", "single")
}

func statusBeforeTheStart(w *world) {
	pod := w.small("early", "true")
	pod.Annotations = map[string]string{wellknown.AnnotationGangName: "pair", wellknown.AnnotationGangSize: "2"} // the other never comes
	pod.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "host", Command: []string{"true"}}}
	w.create(withData(pod))
	pod = w.waitPod("early", "has a status", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
	s := pod.Status.ContainerStatuses[0]
	require.NotNil(w, s.State.Waiting)
	assert.False(w, *s.Started)
	assert.Equal(w, "/data", s.VolumeMounts[0].MountPath)
	assert.Nil(w, pod.Status.StartTime, "the time before the start is not the pod's")
	assert.Equal(w, corev1.PodQOSBurstable, pod.Status.QOSClass)
	assert.Equal(w, "containers with incomplete status: [setup]", podCondition(pod, corev1.PodInitialized).Message)
	assert.Equal(w, "PodSandboxNotReady", podCondition(pod, corev1.PodReadyToStartContainers).Reason)
	assert.Equal(w, pod.Generation, pod.Status.ObservedGeneration)
	for _, c := range pod.Status.Conditions {
		assert.Equal(w, pod.Generation, c.ObservedGeneration, c.Type)
	}
	w.must("delete", "pod", "early")
}
