package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// closedPartition takes jobs and starts none.
const closedPartition = "lowc"

// TestCrash kills gangline-node and gangline-agent at every point that package faults
// names. Whatever the point: one job for the gang, each pod once, the right status, and
// nothing left.
func TestCrash(t *testing.T) {
	t.Parallel()
	small := smallFilesystem(t)
	env := environmentWith(t, harness.Options{
		Name: "crash", WorkloadManager: "slurm", Nodes: 4, Programs: filepath.Join(root(), "bin", "faults"),
		Cgroup: true, // where Slurm knows processes by their parents alone, those of a killed agent escape it
	})
	_, err := env.Slurm.Output(t.Context(), slurm.Head, "scontrol", "update", "partitionname="+closedPartition, "state=down")
	require.NoError(t, err)
	cases := slices.Concat(ambiguousSubmissions(), []sideCase{ // the longest first
		{"a pod is deleted while its agent hangs", func(w *world) { deletedWithoutAgent(w, syscall.SIGSTOP) }},
		{"a pod is deleted whose log has filled the spool", func(w *world) { deletedFull(w, small) }},
		{"the control plane is killed", controlPlaneDies},
	})
	for _, p := range faults.OfNode() {
		cases = append(cases, sideCase{"gangline-node dies at " + p.String(), func(w *world) { nodeDies(w, p, 1) }})
	}
	for _, p := range []faults.Point{faults.Ordered, faults.Reported} { // between the gang's two pods
		cases = append(cases, sideCase{"gangline-node dies at the second " + p.String(), func(w *world) { nodeDies(w, p, 2) }})
	}
	for _, p := range faults.OfAgent() {
		cases = append(cases, sideCase{"gangline-agent dies at " + p.String(), func(w *world) { agentDies(w, p) }})
	}
	const atATime = 7
	sideBySide(t, env, atATime, cases)
	slurmDies(t, env)
}

// scenario is a gang's life that passes some points. It ends when the gang's owner was
// deleted.
type scenario func(w *world, gang string)

// scenarioFor is the life that passes a point: to the end, unless the point is on
// another way.
func scenarioFor(p faults.Point) scenario {
	special := map[faults.Point]scenario{
		faults.StopOrdered: deletedWhileItRuns,
		faults.Unbinding:   deletedWhileItRuns,
		faults.Cancelling:  deletedInTheQueue,
		faults.Cancelled:   deletedInTheQueue,
	}
	if s, ok := special[p]; ok {
		return s
	}
	return runsToTheEnd
}

func runsToTheEnd(w *world, gang string) {
	w.create(makeJobSet(gang, w.replicated("worker", w.noting(gang, "sleep 1"), 2, resources("1", "0"))))
	w.waitJobSet(gang, jobset.JobSetCompleted)
	for _, p := range w.waitAll(gang, corev1.PodSucceeded, 2) {
		assert.Zero(w, p.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	}
	w.deleteJobSet(gang)
	assert.Len(w, w.noted(gang), 2, "each pod ran")
}

func deletedWhileItRuns(w *world, gang string) {
	w.create(makeJobSet(gang, w.replicated("worker", w.noting(gang, "sleep 600"), 2, resources("1", "0"))))
	w.waitAll(gang, corev1.PodRunning, 2)
	w.deleteJobSet(gang)
}

func deletedInTheQueue(w *world, gang string) {
	set := makeJobSet(gang, w.replicated("worker", w.noting(gang, "true"), 2, resources("1", "0")))
	set.Spec.ReplicatedJobs[0].Template.Spec.Template.Annotations = map[string]string{wellknown.AnnotationPartition: closedPartition}
	w.create(set)
	pod := w.waitAll(gang, corev1.PodPending, 2)[0]
	pod = *w.waitPod(pod.Name, "is queued", func(p *corev1.Pod) bool { return p.Annotations[wellknown.AnnotationJobID] != "" })
	w.waitJobState(pod, "PENDING")
	w.deleteJobSet(gang)
	assert.Empty(w, w.noted(gang), "nothing ran")
}

// nodeDies has gangline-node die when it comes to a point for the nth time.
func nodeDies(w *world, p faults.Point, nth int) {
	name := fmt.Sprintf("%s-%d", p, nth)
	w.ownNode("crash-"+name, func(o *harness.NodeOptions) { o.Fault = fmt.Sprintf("%s:%d", p, nth) })
	gang := "gang-" + name
	died := w.restartOnce()
	scenarioFor(p)(w, gang)
	died()
	w.nothingLeft(gang)
}

// agentDies has all agents of a gang die at a point, or its launcher. What ran of the
// pods goes with them, and their own exit code is told if there was one.
func agentDies(w *world, p faults.Point) {
	dir := filepath.Join(w.env.Slurm.SharedDir(), "fault-"+p.String())
	require.NoError(w, os.MkdirAll(dir, 0o755))
	agent := filepath.Join(dir, "agent")
	log := filepath.Join(dir, "log")
	require.NoError(w, os.WriteFile(log, nil, 0o666))
	require.NoError(w, os.Chmod(log, 0o666))
	wrapper := fmt.Sprintf("#!/bin/sh\nexport %s=%s\nexec %s \"$@\" 2>>%s\n",
		faults.Variable, p, filepath.Join(w.env.Slurm.SharedDir(), "bin", "gangline-agent"), log)
	require.NoError(w, os.WriteFile(agent, []byte(wrapper), 0o755))
	w.ownNode("crash-"+p.String(), func(o *harness.NodeOptions) {
		configure := o.Configure
		o.Configure = func(c *provider.Config) { configure(c); c.Agent = agent }
	})
	gang := "gang-" + p.String()
	script := w.noting(gang, "sleep 300")
	if p == faults.PodEnded {
		script = w.noting(gang, "exit 3")
	}
	w.create(makeJobSet(gang, w.replicated("worker", script, 2, resources("1", "0"))))
	w.waitJobSet(gang, jobset.JobSetFailed)
	failed := slices.DeleteFunc(w.jobSetPods(gang), func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodFailed })
	assert.NotEmpty(w, failed, "the Job controller deletes those that had not failed yet")
	for _, pod := range failed {
		end := pod.Status.ContainerStatuses[0].State.Terminated
		require.NotNil(w, end, "%+v", pod.Status)
		assert.Contains(w, []int32{3, 137, 143}, end.ExitCode, "killed with its agent, ended with the job, or told before that")
	}
	w.deleteJobSet(gang)
	w.nothingLeft(gang)
	words, err := os.ReadFile(log)
	require.NoError(w, err)
	assert.Contains(w, string(words), faults.Farewell(p))
}

// noting makes a script write down that its pod has started, before it goes on.
func (w *world) noting(gang, script string) string {
	return fmt.Sprintf("hostname >> %s; export CRASH_GANG=%s; %s", w.notes(gang), gang, script)
}

func (w *world) notes(gang string) string {
	return filepath.Join(w.env.Slurm.SharedDir(), "notes-"+gang)
}

// noted are the pods that have started; none did so twice.
func (w *world) noted(gang string) []string {
	data, err := os.ReadFile(w.notes(gang))
	if !os.IsNotExist(err) {
		require.NoError(w, err)
	}
	pods := strings.Fields(string(data))
	seen := map[string]bool{}
	for _, p := range pods {
		assert.False(w, seen[p], "%s started twice", p)
		seen[p] = true
	}
	return pods
}

func (w *world) deleteJobSet(name string) {
	w.Helper()
	set := makeJobSet(name)
	set.Namespace = w.namespace
	require.NoError(w, w.client.Delete(w.Context(), set, client.PropagationPolicy("Background")))
}

// nothingLeft waits until the gang's pods, jobs, processes and directories are gone, and
// checks that it had one job and that no pod started twice.
func (w *world) nothingLeft(gang string) {
	w.Helper()
	w.waitEmpty("pod", func() ([]string, error) { return podsInWords(w.jobSetPods(gang)), nil })
	w.waitEmpty("active job", func() ([]string, error) { return w.jobsOf(gang, func(j slurm.Job) bool { return active[j.State] }) })
	w.waitEmpty("directory of the gang", func() ([]string, error) {
		entries, err := os.ReadDir(spool.Root(w.env.Node.Spool()).Gangs())
		var names []string
		for _, e := range entries {
			if strings.Contains(e.Name(), gang) {
				names = append(names, e.Name())
			}
		}
		return names, err
	})
	w.waitEmpty("process of the gang", func() ([]string, error) { return processesWith("CRASH_GANG=" + gang), nil })
	jobs, err := w.jobsOf(gang, func(slurm.Job) bool { return true })
	require.NoError(w, err)
	assert.Len(w, jobs, 1, "one job for the gang, whatever died")
	w.noted(gang)
}

// jobsOf are the ids and states of a gang's jobs that Slurm remembers.
func (w *world) jobsOf(gang string, which func(slurm.Job) bool) ([]string, error) {
	list, err := w.env.Slurm.Squeue(w.Context())
	seen := map[string]bool{}
	var found []string
	for _, j := range list {
		id, _, _ := strings.Cut(j.ID, "+")
		if strings.HasPrefix(j.Name, gang+"-") && which(j) && !seen[id] {
			seen[id] = true
			found = append(found, id+" "+j.State)
		}
	}
	return found, err
}

// processesWith are the machine's processes whose environment has a variable.
func processesWith(variable string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // only a bad pattern is an error
	for _, file := range files {
		env, _ := os.ReadFile(file) // it may have ended by now
		if bytes.Contains(env, []byte(variable+"\x00")) {
			found = append(found, file)
		}
	}
	return found
}
