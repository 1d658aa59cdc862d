package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestKueue has the real Kueue decide what runs on the virtual node. Its tests follow one
// another: each fills the queue's quota, which is the whole partition.
func TestKueue(t *testing.T) {
	t.Parallel()
	env := environment(t, "kueue", "slurm", 2, func(c *provider.Config) { c.QueueFactor = 1 })
	startKueue(t)
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"what exceeds the quota is held, and nothing is submitted", heldByQuota},
		{"launcher and workers of MPI are admitted together", queuedMPI},
		{"a TrainJob is preempted, and completes later", preemptedTrainJob},
		{"a JobSet is preempted, and completes later", preemptedJobSet},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(queued(newWorld(t, env))) })
	}
}

func startKueue(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := filepath.Join(runDir, "kueue-manager")
	kueue, err := harness.StartKueue(ctx, control, root(), dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of Kueue's log:\n%s", kueue.LogTail())
		}
		assert.NoError(t, kueue.Stop(context.Background()))
	})
}

// queued gives a test's namespace the queues of the examples.
func queued(w *world) *world {
	w.Helper()
	_, err := control.Kubectl(w.Context(), "", "label", "namespace", w.namespace, harness.KueueNamespaceLabel+"=true")
	require.NoError(w, err)
	w.kueueExample("queues.yaml", wellknown.Cluster+": default", wellknown.Cluster+": "+w.env.Name)
	return w
}

// kueueExample applies an example with changes.
func (w *world) kueueExample(file string, oldNew ...string) {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(root(), "examples", "kueue", file))
	require.NoError(w, err)
	for i := 0; i < len(oldNew); i += 2 {
		require.Contains(w, string(data), oldNew[i], file)
	}
	w.apply(strings.NewReplacer(oldNew...).Replace(string(data)))
}

// clusterWish has an example's runtime mean the test's cluster, not the default one.
func (w *world) clusterWish() string {
	return "\n  annotations: {" + wellknown.Cluster + ": " + w.env.Name + "}\n  labels:"
}

// urgent makes what has a queue preempt others.
const (
	priorityComment = "# kueue.x-k8s.io/priority-class: urgent"
	urgent          = "kueue.x-k8s.io/priority-class: urgent"
)

// workload is what Kueue says of a job, a line for each condition.
func (w *world) workload(job string) string {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("kueue.x-k8s.io/v1beta2")
	list.SetKind("WorkloadList")
	require.NoError(w, w.client.List(w.Context(), list, client.InNamespace(w.namespace)))
	var text strings.Builder
	for _, u := range list.Items {
		if owner := metav1.GetControllerOf(&u); owner == nil || owner.Name != job {
			continue
		}
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		require.NoError(w, err)
		for _, c := range conditions {
			c := c.(map[string]any)
			fmt.Fprintf(&text, "%s=%s %s: %s\n", c["type"], c["status"], c["reason"], c["message"])
		}
	}
	return text.String()
}

func (w *world) waitWorkload(job string, says ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("Kueue says of %s: %q", job, says), func(context.Context) (bool, string) {
		seen := w.workload(job)
		return containsAll(seen, says...), seen
	})
}

// liveJobs are the jobs of the test's virtual node that have not ended.
func (w *world) liveJobs() (ids []string) {
	w.Helper()
	list, err := w.env.Jobs(w.Context())
	require.NoError(w, err)
	for _, j := range list {
		if active[j.State] {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func heldByQuota(w *world) {
	signal := filepath.Join(w.env.SharedDir(), "go-"+w.namespace)
	w.kueueExample("trainjob.yaml", "\n  labels:", w.clusterWish(), "queued-train", "first",
		"args: ['", "args: ['until [ -e "+signal+" ]; do sleep 0.1; done; ")
	first := w.waitAll("first", corev1.PodRunning, 2)
	assert.Len(w, w.jobs(first...), 1, "one job for the whole gang")
	for _, p := range first {
		assert.Equal(w, w.env.Name, p.Spec.NodeSelector[wellknown.Cluster])
	}

	w.kueueExample("trainjob.yaml", "\n  labels:", w.clusterWish(), "queued-train", "second")
	w.waitWorkload("second", "QuotaReserved=False", "insufficient unused quota")
	held := w.waitTrainJob("second", v1alpha1.TrainJobSuspended)
	assert.True(w, *held.Spec.Suspend)
	assert.Empty(w, w.jobSetPods("second"))
	assert.Equal(w, []string{first[0].Annotations[wellknown.AnnotationJobID]}, w.liveJobs(), "nothing is submitted for it")

	require.NoError(w, os.WriteFile(signal, nil, 0o644))
	ended := w.waitTrainJob("first", v1alpha1.TrainJobComplete)
	w.complete("second")
	second := w.jobSetPods("second")
	assert.Len(w, slurmJobs(second), 1, "one job for the whole gang")
	assert.Equal(w, strings.Count(w.jobLogs("second", "node"), "of 2 has GPUs 0,1,2,3,4,5,6,7\n"), 2, w.jobLogs("second", "node"))
	resumed := meta.FindStatusCondition(w.trainJob("second").Status.Conditions, v1alpha1.TrainJobSuspended)
	complete := meta.FindStatusCondition(ended.Status.Conditions, v1alpha1.TrainJobComplete)
	assert.False(w, resumed.LastTransitionTime.Before(&complete.LastTransitionTime), "it was held until the first had ended")
}

func queuedMPI(w *world) {
	w.queueMPI("mpi", "mpi-distributed-hpc")
	assert.Contains(w, w.jobLogs("mpi", "launcher"), "mpi-node-0-0.mpi slots=1\n")
	w.queueMPI("mpich", "mpich-distributed-hpc") // which Kueue's own library takes for Open MPI
	assert.Contains(w, w.jobLogs("mpich", "launcher"), "mpich-node-0-0.mpich:1\n")
}

// queueMPI runs a TrainJob that shows its hostfile.
func (w *world) queueMPI(name, runtime string) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: %s
  labels: {kueue.x-k8s.io/queue-name: hpc}
  annotations: {gangline.dev/cluster: %s}
spec:
  runtimeRef: {name: %s}
  trainer:
    numNodes: 2
    resourcesPerNode: {requests: {cpu: "4", memory: 1Gi}}
    command: [cat, /etc/mpi/hostfile]
`, name, w.env.Name, runtime))
	w.complete(name)
	assert.Len(w, slurmJobs(w.jobSetPods(name)), 1, "one job for the whole gang")
	w.waitWorkload(name, "Admitted=True", "Finished=True Succeeded")
}

// resumable is a program that takes its time to stop, and is done when it runs again.
func (w *world) resumable(index string) string {
	dir := filepath.Join(w.env.SharedDir(), "ran-"+w.namespace)
	require.NoError(w, os.MkdirAll(dir, 0o777))
	require.NoError(w, os.Chmod(dir, 0o777))
	return fmt.Sprintf(`cd %s; i=$%s; if [ -e began-$i ]; then echo again; exit 0; fi; `+
		`trap "sleep 1; touch stopped-$i; exit 143" TERM; touch began-$i; sleep 600 & wait; `, dir, index)
}

// stopped is what the programs have left when they were stopped with their grace.
func (w *world) stopped() []string {
	files, err := filepath.Glob(filepath.Join(w.env.SharedDir(), "ran-"+w.namespace, "stopped-*"))
	require.NoError(w, err)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}

// waitPreempted waits until a gang has given its place away: its pods have ended with
// their grace, and its allocation is released although a JobSet that restarts would keep
// it for longer than this test waits.
func (w *world) waitPreempted(name string, pods []corev1.Pod) {
	w.Helper()
	w.waitWorkload(name, "Evicted=True Preempted", "QuotaReserved=False")
	for _, p := range pods {
		w.waitGone(p.Name)
	}
	w.waitJobGone(pods...)
	assert.Equal(w, []string{"stopped-0", "stopped-1"}, w.stopped())
	for id, job := range w.jobs(pods...) {
		assert.NotEqual(w, "FAILED", job.State, id)
	}
}

func preemptedTrainJob(w *world) {
	w.kueueExample("trainjob.yaml", "\n  labels:", w.clusterWish(), "queued-train", "low", "args: ['", "args: ['"+w.resumable("PET_NODE_RANK"))
	before := w.waitAll("low", corev1.PodRunning, 2)
	w.waitBegan()
	w.kueueExample("trainjob.yaml", "\n  labels:", w.clusterWish(), "queued-train", "high", priorityComment, urgent, "args: ['", "args: ['sleep 2; ")
	w.waitTrainJob("low", v1alpha1.TrainJobSuspended)
	w.waitPreempted("low", before)
	w.complete("high")
	w.complete("low")
	after := w.jobSetPods("low")
	assert.Equal(w, strings.Repeat("again\n", 2), w.jobLogs("low", "node"))
	assert.Len(w, slurmJobs(append(after, before...)), 2, "one job before, and one after")
}

func preemptedJobSet(w *world) {
	w.kueueExample("jobset.yaml", "queued-set", "low", "args: ['", "args: ['"+w.resumable("JOB_COMPLETION_INDEX"))
	before := w.waitAll("low", corev1.PodRunning, 2)
	w.waitBegan()
	w.kueueExample("jobset.yaml", "queued-set", "high", priorityComment, urgent, "args: ['", "args: ['sleep 2; ")
	w.eventually("the JobSet is suspended", func(ctx context.Context) (bool, string) {
		js := &jobset.JobSet{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "low"}, js)
		return err == nil && ptr.Deref(js.Spec.Suspend, false), fmt.Sprint(err)
	})
	w.waitPreempted("low", before)
	w.waitJobSet("high", jobset.JobSetCompleted)
	assert.Equal(w, strings.Count(w.jobLogs("high", "worker"), "has GPUs 0,1,2,3,4,5,6,7\n"), 2)
	w.waitJobSet("low", jobset.JobSetCompleted)
	after := w.jobSetPods("low")
	assert.Equal(w, strings.Repeat("again\n", 2), w.jobLogs("low", "worker"))
	assert.Len(w, slurmJobs(append(after, before...)), 2, "one job before, and one after")
}

// waitBegan waits until both of the programs mind their stop.
func (w *world) waitBegan() {
	w.Helper()
	w.eventually("the programs have begun", func(context.Context) (bool, string) {
		files, err := filepath.Glob(filepath.Join(w.env.SharedDir(), "ran-"+w.namespace, "began-*"))
		return len(files) == 2, fmt.Sprint(files, err)
	})
}
