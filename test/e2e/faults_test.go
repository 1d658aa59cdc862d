package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestFaults breaks things. Its tests follow one another.
func TestFaults(t *testing.T) {
	t.Parallel()
	tools := slowSbatch(t)
	env := environment(t, "faults", "slurm", 2, func(c *provider.Config) { c.Slurm.Bin = tools.dir })
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"a provider killed between submission and record submits nothing twice", func(w *world) { killedInSubmission(w, tools) }},
		{"a provider that starts anew finds its pods again", restartProvider},
		{"while Slurm is silent nothing changes", silentSlurm},
		{"a node that crashes fails its gang's pods", nodeCrash},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

// slowTools are Slurm's commands, of which sbatch can be made to answer late:
// the job is in the queue while the provider does not know it yet.
type slowTools struct {
	dir  string
	slow string // while this file exists, sbatch answers late
	seen string // made when sbatch has submitted
}

func slowSbatch(t *testing.T) slowTools {
	dir, err := os.MkdirTemp(runDir, "tools-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	s := slowTools{dir: dir, slow: filepath.Join(dir, "slow"), seen: filepath.Join(dir, "seen")}
	for _, tool := range []string{"squeue", "scancel", "sinfo", "scontrol", "sbatch"} {
		path, err := exec.LookPath(tool)
		require.NoError(t, err)
		if tool != "sbatch" {
			require.NoError(t, os.Symlink(path, filepath.Join(dir, tool)))
			continue
		}
		script := fmt.Sprintf("#!/bin/sh\nanswer=$(%s \"$@\") || exit\nif [ -e %s ]; then : > %s; sleep 5; fi\necho \"$answer\"\n", path, s.slow, s.seen)
		require.NoError(t, os.WriteFile(filepath.Join(dir, tool), []byte(script), 0o755))
	}
	return s
}

func killedInSubmission(w *world, tools slowTools) {
	require.NoError(w, os.WriteFile(tools.slow, nil, 0o644))
	w.create(makeJobSet("once", w.replicated("worker", "sleep 8", 2, resources("1", "0"))))
	w.eventually("sbatch has submitted", func(context.Context) (bool, string) {
		_, err := os.Stat(tools.seen)
		return err == nil, fmt.Sprint(err)
	})
	require.NoError(w, w.env.Node.Kill())
	allocations := cutWhileMaking(w, "once")
	require.NoError(w, os.Remove(tools.slow))
	require.NoError(w, w.env.Node.Start(w.Context()))

	pods := w.waitAll("once", corev1.PodRunning, 2)
	w.waitJobSet("once", jobset.JobSetCompleted)
	assert.Len(w, w.jobsNamed(allocations), 1, "the job that was submitted before the crash, and no other")
	assert.Len(w, w.jobs(pods...), 1)
	w.waitJobGone(pods...)
}

// cutWhileMaking makes a second directory for a gang's allocation, as one is left behind
// where the answer to its making was lost. It returns both names.
func cutWhileMaking(w *world, gang string) map[string]bool {
	root := spool.Root(w.env.Node.Spool())
	made, err := filepath.Glob(string(root.Dir(gang + "-*")))
	require.NoError(w, err)
	require.Len(w, made, 1)
	var g spool.Gang
	_, err = spool.Read(spool.Dir(made[0]).Gang(), &g)
	require.NoError(w, err)
	names := map[string]bool{g.Allocation: true}
	g.Allocation = regexp.MustCompile(`[0-9a-f]{10}-1$`).ReplaceAllString(g.Allocation, "ffffffffff-1") // it would be the last in a list
	names[g.Allocation] = true
	require.NoError(w, root.Create(g))
	out, err := exec.CommandContext(w.Context(), "chown", "-R", "--reference="+made[0], string(root.Dir(g.Allocation))).CombinedOutput()
	require.NoError(w, err, string(out))
	return names
}

func restartProvider(w *world) {
	marker := filepath.Join(w.env.Slurm.SharedDir(), "starts-"+w.namespace)
	w.create(w.makePod("steady", "echo started >> "+marker+"; echo before; sleep 8; echo after", resources("1", "0")))
	before := w.waitPhase("steady", corev1.PodRunning)
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, w.env.Node.Start(w.Context()))
	after := w.waitPhase("steady", corev1.PodSucceeded)
	assert.Equal(w, before.UID, after.UID)
	assert.Equal(w, before.Annotations[wellknown.AnnotationJobID], after.Annotations[wellknown.AnnotationJobID])
	assert.Equal(w, "before\nafter\n", w.must("logs", "steady"))
	starts, err := os.ReadFile(marker)
	require.NoError(w, err)
	assert.Equal(w, "started\n", string(starts), "it ran once")

	// An end that came while nobody looked is reported too.
	w.create(w.makePod("unseen", "sleep 3; exit 4", resources("1", "0")))
	pod := w.waitPhase("unseen", corev1.PodRunning)
	require.NoError(w, w.env.Node.Kill())
	w.waitAgentDone(*pod)
	require.NoError(w, w.env.Node.Start(w.Context()))
	pod = w.waitPhase("unseen", corev1.PodFailed)
	assert.EqualValues(w, 4, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

func silentSlurm(w *world) {
	w.create(w.makePod("calm", "sleep 25", resources("1", "0")))
	w.waitPhase("calm", corev1.PodRunning)
	require.NoError(w, w.env.Slurm.StopController(w.Context()))
	w.eventually("the node says that Slurm is silent", func(context.Context) (bool, string) {
		out, err := w.kubectl("get", "node", w.env.Name, "-o", `jsonpath={.status.conditions[?(@.type=="`+wellknown.ConditionReachable+`")].status}`)
		return err == nil && out == "False", out
	})
	assert.Equal(w, corev1.PodRunning, w.pod("calm").Status.Phase)
	out := w.must("get", "node", w.env.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
	assert.Equal(w, "True", out, "the node stays Ready, or its pods would be evicted")
	require.NoError(w, w.env.Slurm.StartController(w.Context()))
	w.waitPhase("calm", corev1.PodSucceeded)
}

func nodeCrash(w *world) {
	w.create(makeJobSet("fragile", w.replicated("worker", "sleep 600", 2, resources("5", "0"))))
	pods := w.waitAll("fragile", corev1.PodRunning, 2)
	require.NoError(w, w.env.Slurm.Crash(w.Context(), pods[1].Annotations[wellknown.AnnotationHPCNode]))
	w.eventually("the JobSet has failed", func(ctx context.Context) (bool, string) {
		out, err := w.kubectl("get", "jobset", "fragile", "-o", "jsonpath={.status.terminalState}")
		return err == nil && out == string(jobset.JobSetFailed), out
	})
	w.waitJobGone(pods...)
	disrupted := 0
	for _, p := range w.jobSetPods("fragile") {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
				disrupted++
				assert.Equal(w, wellknown.ReasonNodeFailure, p.Status.Reason)
			}
		}
	}
	assert.NotZero(w, disrupted, "Kubernetes is told that the infrastructure was at fault")
	require.NoError(w, w.env.Slurm.Restart(w.Context(), pods[1].Annotations[wellknown.AnnotationHPCNode]))
}
