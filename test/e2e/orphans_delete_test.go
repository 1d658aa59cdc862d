package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// deletions are pods that are deleted in each state that they can be in. Whatever the
// state: the pod goes, and so does its job. (TestCrash has the one that takes longest.)
func deletions() []sideCase {
	return []sideCase{
		{"a pod is deleted while it waits for its gang", deletedForming},
		{"a pod is deleted while sbatch is at work", deletedSubmitting},
		{"a pod is deleted in the queue", func(w *world) { w.deletedAsQueued("queued", false) }},
		{"a pod is deleted while its job is held", func(w *world) { w.deletedAsQueued("held", true) }},
		{"a pod is deleted while its agent starts", deletedStarting},
		{"a pod is deleted while it runs and ignores signals", deletedDeaf},
		{"a pod is deleted while its job is ending", deletedEnding},
		{"a pod is deleted after its agent was killed", func(w *world) { deletedWithoutAgent(w, syscall.SIGKILL) }},
	}
}

// violentDeletions disturb the whole group: they follow one another.
func violentDeletions() []sideCase {
	return []sideCase{
		{"pods are deleted while slurmctld is down", deletedWithoutSlurm},
		{"a pod is deleted after its HPC node has died", deletedWithoutNode},
	}
}

// deleteNow deletes a pod without waiting.
func (w *world) deleteNow(name string) { w.must("delete", "pod", name, "--wait=false") }

// gone waits until the pod and its jobs are gone, and tells how long that took.
func (w *world) gone(pod string) {
	w.Helper()
	began := time.Now()
	w.eventually("the pod is gone", func(ctx context.Context) (bool, string) {
		out, err := w.kubectl("get", "pod", pod, "--ignore-not-found", "-o", "jsonpath={.metadata.name}")
		return err == nil && out == "", fmt.Sprint(out, err)
	})
	w.Logf("the pod was gone after %s", time.Since(began).Round(100*time.Millisecond))
	w.waitEmpty("active job", func() ([]string, error) { return w.jobsOf(pod, func(j slurm.Job) bool { return active[j.State] }) })
	w.waitEmpty("process", func() ([]string, error) { return processesWith("CRASH_GANG=" + pod), nil })
}

func deletedForming(w *world) {
	pod := w.makePod("forming", "true", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationGangName: "pair", wellknown.AnnotationGangSize: "2"}
	w.create(pod)
	w.waitPod("forming", "waits for its gang", func(p *corev1.Pod) bool { return p.Status.Reason == wellknown.ReasonWaitingForGang })
	w.deleteNow("forming")
	w.gone("forming")
	all, err := w.jobsOf("forming", func(slurm.Job) bool { return true })
	require.NoError(w, err)
	assert.Empty(w, all)
}

func deletedSubmitting(w *world) {
	tools := toolsWith(w.T, "sbatch", "sleep 4")
	w.ownNode("delete-submitting", func(o *harness.NodeOptions) {
		configure := o.Configure
		o.Configure = func(c *provider.Config) { configure(c); c.Slurm.Bin = tools }
	})
	w.create(w.makePod("submitting", w.noting("submitting", "sleep 600"), resources("1", "0")))
	w.eventually("sbatch is at work", func(context.Context) (bool, string) {
		found, err := filepath.Glob(filepath.Join(tools, "once"))
		return len(found) == 1, fmt.Sprint(err)
	})
	w.deleteNow("submitting")
	w.gone("submitting")
}

// deletedAsQueued deletes a pod whose job waits, held or not.
func (w *world) deletedAsQueued(name string, hold bool) {
	pod := w.makePod(name, "true", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationPartition: closedPartition}
	w.create(pod)
	queued := w.waitPod(name, "is queued", func(p *corev1.Pod) bool { return p.Annotations[wellknown.AnnotationJobID] != "" })
	w.waitJobState(*queued, "PENDING")
	if hold {
		_, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "hold", queued.Annotations[wellknown.AnnotationJobID])
		require.NoError(w, err)
		w.waitPod(name, "says that its job is held", func(p *corev1.Pod) bool { return containsAll(p.Status.Message, "JobHeldAdmin") })
	}
	w.deleteNow(name)
	w.gone(name)
	w.waitJobState(*queued, "CANCELLED")
}

func deletedStarting(w *world) {
	w.create(w.makePod("starting", w.noting("starting", "sleep 600"), resources("1", "0")))
	w.eventually("the job has started", func(context.Context) (bool, string) {
		jobs, err := w.jobsOf("starting", func(j slurm.Job) bool { return j.State == "RUNNING" || j.State == "CONFIGURING" })
		return len(jobs) == 1, fmt.Sprint(jobs, err)
	})
	w.deleteNow("starting")
	w.gone("starting")
}

func deletedDeaf(w *world) {
	w.create(w.makePod("deaf", w.noting("deaf", "trap '' TERM; while :; do sleep 1; done"), resources("1", "0")))
	w.waitPhase("deaf", corev1.PodRunning)
	w.deleteNow("deaf")
	w.gone("deaf")
}

func deletedEnding(w *world) {
	w.create(w.makePod("ending", w.noting("ending", "sleep 1"), resources("1", "0")))
	pod := w.waitPhase("ending", corev1.PodRunning)
	w.waitAgentDone(*pod)
	w.deleteNow("ending")
	w.gone("ending")
}

func deletedWithoutAgent(w *world, sig syscall.Signal) {
	name := map[syscall.Signal]string{syscall.SIGKILL: "agentless", syscall.SIGSTOP: "hanging"}[sig]
	w.ownNode("delete-"+name, func(o *harness.NodeOptions) {
		configure := o.Configure
		o.Configure = func(c *provider.Config) { configure(c); c.ReleaseTimeout.Duration = 2 * time.Second }
	})
	w.create(w.makePod(name, w.noting(name, "sleep 600"), resources("1", "0")))
	pod := w.waitPhase(name, corev1.PodRunning)
	agents := agentsOf(pod.Annotations[wellknown.AnnotationAllocation])
	require.NotEmpty(w, agents)
	for _, pid := range agents {
		require.NoError(w, syscall.Kill(pid, sig))
	}
	w.deleteNow(name)
	w.gone(name)
}

func deletedWithoutSlurm(w *world) {
	queued := w.makePod("silent-queued", w.noting("silent-queued", "true"), resources("1", "0"))
	queued.Annotations = map[string]string{wellknown.AnnotationPartition: closedPartition}
	w.create(queued, w.makePod("silent-running", w.noting("silent-running", "sleep 600"), resources("1", "0")))
	running := w.waitPhase("silent-running", corev1.PodRunning)
	waiting := w.waitPod("silent-queued", "is queued", func(p *corev1.Pod) bool { return p.Annotations[wellknown.AnnotationJobID] != "" })
	w.waitJobState(*waiting, "PENDING")
	require.NoError(w, w.env.Slurm.StopController(w.Context()))
	w.deleteNow("silent-queued")
	w.deleteNow("silent-running")
	w.waitAgentDone(*running)
	assert.NotNil(w, w.pod("silent-queued").DeletionTimestamp, "the pod stays until Slurm says that its job is gone")
	require.NoError(w, w.env.Slurm.StartController(w.Context()))
	w.gone("silent-queued")
	w.gone("silent-running")
	// A Slurm that comes back may start it before it hears of the cancellation; then the
	// job finds its gang released and ends.
	w.waitJobGone(*waiting)
	assert.Empty(w, w.noted("silent-queued"), "nothing of the pod ran")
}

func deletedWithoutNode(w *world) {
	w.create(w.makePod("nodeless", w.noting("nodeless", "sleep 600"), resources("1", "0")))
	pod := w.waitPhase("nodeless", corev1.PodRunning)
	node := pod.Annotations[wellknown.AnnotationHPCNode]
	require.NoError(w, w.env.Slurm.Crash(w.Context(), node))
	w.deleteNow("nodeless")
	w.gone("nodeless")
	require.NoError(w, w.env.Slurm.Restart(w.Context(), node))
}
