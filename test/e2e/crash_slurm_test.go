package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// ambiguousSubmissions are those of which gangline-node cannot know whether Slurm took
// them.
func ambiguousSubmissions() []sideCase {
	return []sideCase{
		{"sbatch hangs after Slurm has taken the job", func(w *world) {
			ambiguousSbatch(w, "hangs", `"$real" "$@" >/dev/null; exec sleep 100`, 1)
		}},
		{"sbatch is killed after Slurm has taken the job", func(w *world) {
			ambiguousSbatch(w, "killed", `"$real" "$@" >/dev/null; kill -9 $$`, 1)
		}},
		{"an sbatch that was killed comes through after the next", func(w *world) {
			ambiguousSbatch(w, "late", `(sleep 12; "$real" "$@") >/dev/null 2>&1 & kill -9 $$`, 2)
		}},
	}
}

// ambiguousSbatch runs a gang whose first sbatch does what the script says. Slurm sees so
// many jobs in the end, of which one runs the gang.
func ambiguousSbatch(w *world, name, script string, jobs int) {
	tools := toolsWith(w.T, "sbatch", script)
	w.ownNode("sbatch-"+name, func(o *harness.NodeOptions) {
		configure := o.Configure
		o.Configure = func(c *provider.Config) { configure(c); c.Slurm.Bin = tools }
	})
	gang := "sbatch-" + name
	w.create(makeJobSet(gang, w.replicated("worker", w.noting(gang, "sleep 12"), 2, resources("1", "0"))))
	w.eventually("the JobSet has completed", func(context.Context) (bool, string) {
		out, err := w.kubectl("get", "jobset", gang, "-o", "jsonpath={.status.terminalState}")
		return err == nil && out == string(jobset.JobSetCompleted), out
	})
	assert.Len(w, w.noted(gang), 2, "each pod ran, and once")
	w.waitEmpty("active job", func() ([]string, error) { return w.jobsOf(gang, func(j slurm.Job) bool { return active[j.State] }) })
	all, err := w.jobsOf(gang, func(slurm.Job) bool { return true })
	require.NoError(w, err)
	assert.Len(w, all, jobs, "%v", all)
	w.deleteJobSet(gang)
}

// toolsWith are Slurm's tools, of which one does what the script says when it is run for
// the first time; the real one is $real.
func toolsWith(t *testing.T, special, script string) string {
	dir, err := os.MkdirTemp(runDir, "tools-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	for _, tool := range []string{"squeue", "scancel", "sinfo", "scontrol", "sbatch"} {
		real, err := exec.LookPath(tool)
		require.NoError(t, err)
		path := filepath.Join(dir, tool)
		if tool != special {
			require.NoError(t, os.Symlink(real, path))
			continue
		}
		text := fmt.Sprintf("#!/bin/sh\nreal=%s\nif mkdir %s 2>/dev/null; then\n%s\nfi\nexec \"$real\" \"$@\"\n", real, filepath.Join(dir, "once"), script)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	return dir
}

// slurmDies are crashes that all of a cluster's jobs see: they follow one another.
func slurmDies(t *testing.T, env *harness.Environment) {
	for _, after := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 8 * time.Second} {
		t.Run(fmt.Sprintf("slurmctld is killed %s after a submission", after), func(t *testing.T) {
			controllerDies(newWorld(t, env), after, false)
		})
	}
	t.Run("slurmd is killed under a gang", func(t *testing.T) { slurmdDies(newWorld(t, env)) })
	t.Run("slurmctld is killed and has forgotten a job that runs", func(t *testing.T) {
		controllerDies(newWorld(t, env), 0, true)
	})
}

// controllerDies kills slurmctld some time after it has taken a job, and starts it again.
// It may have forgotten the job, or that it has started it; then it starts it once more,
// the node refuses, and it holds the job and drains the node. In each case the gang runs
// once, or what an administrator has to do is said on its pods.
// It forgets what came within five seconds of its last saving; to make sure, a test may
// take its file of jobs away.
func controllerDies(w *world, after time.Duration, forget bool) {
	// Or it would forget which job ids it gave to the case before, and give them again.
	require.NoError(w, w.env.Slurm.RestartController(w.Context()))
	gang := fmt.Sprintf("ctld-%d-%v", after.Milliseconds(), forget)
	seconds := after.Seconds() + 4
	if forget {
		seconds = 600
	}
	w.create(makeJobSet(gang, w.replicated("worker", w.noting(gang, fmt.Sprintf("sleep %.0f", seconds)), 2, resources("1", "0"))))
	var pod corev1.Pod
	w.eventually("the job is submitted", func(context.Context) (bool, string) {
		for _, p := range w.jobSetPods(gang) {
			pod = p
		}
		return pod.Annotations[wellknown.AnnotationJobID] != "", fmt.Sprint(pod.Status)
	})
	if forget {
		w.waitAll(gang, corev1.PodRunning, 2) // one that waits would be submitted again
	}
	<-time.After(after) // the moment is what is tested
	require.NoError(w, w.env.Slurm.KillController(w.Context()))
	if forget {
		for _, file := range []string{"job_state", "job_state.old"} {
			_ = os.Remove(filepath.Join(slurm.Dir(w.env.Name), "state", file)) // there may be no older one
		}
	}
	require.NoError(w, w.env.Slurm.StartController(w.Context()))
	held := false
	w.eventually("the JobSet has ended, or its pods say what to do", func(ctx context.Context) (bool, string) {
		for _, p := range w.jobSetPods(gang) {
			held = held || strings.Contains(p.Status.Message, "held")
			pod = p
		}
		out, err := w.kubectl("get", "jobset", gang, "-o", "jsonpath={.status.terminalState}")
		return err == nil && (out != "" || held), out + " " + pod.Status.Message
	})
	w.Logf("after %s: held %v, %s %s %q", after, held, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	for _, p := range w.jobSetPods(gang) {
		if p.Status.Phase == corev1.PodFailed {
			assert.Contains(w, []string{wellknown.ReasonAllocationLost, wellknown.ReasonCancelled}, p.Status.Reason)
			assert.False(w, forget && p.Status.Reason != wellknown.ReasonAllocationLost, p.Status.Reason)
			assert.Equal(w, p.Status.Reason == wellknown.ReasonAllocationLost, disrupted(p), "what Slurm forgot is nobody's fault")
		}
	}
	w.noted(gang)
	w.deleteJobSet(gang)
	w.resumeNodes()
	w.waitEmpty("pod", func() ([]string, error) { return podsInWords(w.jobSetPods(gang)), nil })
	w.waitEmpty("active job", func() ([]string, error) { return w.jobsOf(gang, func(j slurm.Job) bool { return active[j.State] }) })
	w.waitEmpty("process of the gang", func() ([]string, error) { return processesWith("CRASH_GANG=" + gang), nil })
}

// resumeNodes does what an administrator does about drained nodes.
func (w *world) resumeNodes() {
	w.Helper()
	nodes, err := w.env.Slurm.NodeStates(w.Context())
	require.NoError(w, err)
	for node, state := range nodes {
		if strings.HasPrefix(state, "drain") {
			_, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "update", "nodename="+node, "state=resume")
			require.NoError(w, err)
		}
	}
}

// slurmdDies kills the daemon of a node under a gang, and starts it again: the gang
// feels nothing.
func slurmdDies(w *world) {
	w.create(w.makePod("steady", "sleep 10; exit 4", resources("1", "0")))
	pod := w.waitPhase("steady", corev1.PodRunning)
	require.NoError(w, w.env.Slurm.RestartDaemon(w.Context(), pod.Annotations[wellknown.AnnotationHPCNode]))
	pod = w.waitPhase("steady", corev1.PodFailed)
	assert.EqualValues(w, 4, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
}
