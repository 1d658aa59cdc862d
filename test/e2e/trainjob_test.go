package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestTrainJobs is what a user of Kubeflow Trainer does, on the HPC side.
func TestTrainJobs(t *testing.T) {
	t.Parallel()
	env := environment(t, "trains", "slurm", 4, func(c *provider.Config) {
		c.HostPaths = []string{filepath.Dir(filepath.Dir(c.Spool))}
	})
	runAll(t, env, map[string]func(*world){
		"the MPI TrainJob of the examples runs on four nodes as one job": mpiTrainJob,
		"MPICH":                    mpichTrainJob,
		"DeepSpeed's way to start": deepSpeedTrainJob,
		"torchrun's variables":     torchTrainJob,
		"JAX's variables":          jaxTrainJob,
		"XGBoost's variables":      xgboostTrainJob,
		"initializers fill a shared path, in jobs of their own": initializersTrainJob,
		"suspended, patched, resumed":                           suspendedTrainJob,
		"a failing program fails the TrainJob":                  failingTrainJob,
		"a TrainJob past its deadline loses its job":            expiredTrainJob,
		"deleting a TrainJob ends everything":                   deletedTrainJob,
		"mistakes are explained at once":                        mistakenTrainJobs,
	})
}

// train creates a TrainJob of this group's cluster.
func (w *world) train(name, spec string) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: %s
  annotations: {gangline.dev/cluster: %s}
spec:
%s`, name, w.env.Name, indent(spec)))
}

func (w *world) apply(manifest string) {
	w.Helper()
	_, err := control.Kubectl(w.Context(), manifest, "-n", w.namespace, "apply", "-f", "-")
	require.NoError(w, err, manifest)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

func (w *world) trainJob(name string) *v1alpha1.TrainJob {
	w.Helper()
	tj := &v1alpha1.TrainJob{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, tj))
	return tj
}

// waitTrainJob waits until a condition is true and returns the TrainJob.
func (w *world) waitTrainJob(name, condition string) *v1alpha1.TrainJob {
	w.Helper()
	var tj *v1alpha1.TrainJob
	w.eventually(fmt.Sprintf("TrainJob %s is %s", name, condition), func(context.Context) (bool, string) {
		tj = w.trainJob(name)
		seen := fmt.Sprintf("%+v", tj.Status)
		for _, p := range w.jobSetPods(name) {
			seen += fmt.Sprintf("; %s %s %q", p.Name, p.Status.Phase, p.Status.Message)
		}
		return meta.IsStatusConditionTrue(tj.Status.Conditions, condition), seen
	})
	return tj
}

// jobLogs are the logs of a replicated job's pods, one after the other.
func (w *world) jobLogs(trainJob, job string) string {
	w.Helper()
	var logs strings.Builder
	for _, p := range w.jobSetPods(trainJob) {
		if p.Labels[jobset.ReplicatedJobNameKey] == job {
			logs.WriteString(w.must("logs", p.Name))
		}
	}
	return logs.String()
}

// slurmJobs are the names of the pods' allocations.
func slurmJobs(pods []corev1.Pod) map[string]bool {
	jobs := map[string]bool{}
	for _, p := range pods {
		jobs[p.Annotations[wellknown.AnnotationAllocation]] = true
	}
	return jobs
}

func counts(ready, succeeded, failed, active int32) v1alpha1.JobStatus {
	return v1alpha1.JobStatus{
		Ready: ptr.To(ready), Succeeded: ptr.To(succeeded), Failed: ptr.To(failed), Active: ptr.To(active), Suspended: ptr.To[int32](0),
	}
}

func named(name string, s v1alpha1.JobStatus) v1alpha1.JobStatus {
	s.Name = name
	return s
}

func mpiTrainJob(w *world) {
	manifest, err := os.ReadFile(filepath.Join(root(), "examples", "mpi-trainjob.yaml"))
	require.NoError(w, err)
	// The cluster of the tests is not the default one.
	mine := strings.Replace(string(manifest), "kind: TrainJob\nmetadata:", "kind: TrainJob\nmetadata:\n  annotations: {gangline.dev/cluster: "+w.env.Name+"}", 1)
	w.apply(strings.ReplaceAll(mine, "gangline-pi", "gangline-pi-train"))

	pods := w.waitAll("pi", corev1.PodRunning, 4)
	assert.Len(w, w.jobs(pods...), 1, "one Slurm job for the whole gang")
	hosts := map[string]bool{}
	for _, p := range pods {
		hosts[p.Status.HostIP] = true
	}
	assert.Len(w, hosts, 4, "four HPC nodes")
	assert.Empty(w, w.trainJob("pi").Status.Conditions, "a running TrainJob has no condition")

	tj := w.waitTrainJob("pi", v1alpha1.TrainJobComplete)
	require.Len(w, tj.Status.Conditions, 1)
	assert.Equal(w, "jobset completed successfully", tj.Status.Conditions[0].Message)
	log := w.jobLogs("pi", "launcher")
	for _, line := range []string{"pi-node-0-0.pi slots=2", "pi-node-0-2.pi slots=2", "pi-launcher-0-0.pi slots=2", "pi is about 3.14159265"} {
		assert.Contains(w, log, line)
	}
	assert.Len(w, regexp.MustCompile(`rank \d of 8 in pod pi-\S+, GPUs of the pod: \d,\d`).FindAllString(log, -1), 8, log)
	out := w.must("get", "trainjob", "pi")
	assert.Regexp(w, `pi\s+Complete`, out)
	w.waitJobGone(pods...)
}

func mpichTrainJob(w *world) {
	w.train("mpich", `
runtimeRef: {name: mpich-distributed-hpc}
trainer:
  numNodes: 2
  numProcPerNode: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -ec]
  args: ["cat /etc/mpi/hostfile; mpiexec.hydra sh -c 'echo rank $PMI_RANK of $PMI_SIZE in $(hostname)'"]
`)
	w.waitTrainJob("mpich", v1alpha1.TrainJobComplete)
	log := w.jobLogs("mpich", "launcher")
	assert.Contains(w, log, "mpich-node-0-0.mpich:2")
	assert.Len(w, regexp.MustCompile(`rank \d of 4 in mpich-\S+`).FindAllString(log, -1), 4, log)
}

// deepSpeedTrainJob starts a process on each host as DeepSpeed's own launcher
// does: by ssh, to the names in the hostfile.
func deepSpeedTrainJob(w *world) {
	w.train("ds", `
runtimeRef: {name: deepspeed-distributed-hpc}
trainer:
  numNodes: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -ec]
  args:
  - |
    master=$(hostname)
    while read -r host slots; do
      ssh -n "$host" "export MASTER=$master; echo started \$(hostname) for \$MASTER with ${slots}"
    done </etc/mpi/hostfile
`)
	w.waitTrainJob("ds", v1alpha1.TrainJobComplete)
	log := w.jobLogs("ds", "launcher")
	for _, host := range []string{"ds-node-0-0", "ds-launcher-0-0"} {
		assert.Contains(w, log, "started "+host+" for ds-launcher-0-0 with slots=1")
	}
}

// environmentJob runs a runtime that only sets variables on two nodes, and
// returns what both say.
func environmentJob(w *world, name, runtime, script string) string {
	w.train(name, fmt.Sprintf(`
runtimeRef: {name: %s}
trainer:
  numNodes: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -ec]
  args: [%q]
`, runtime, script))
	w.waitTrainJob(name, v1alpha1.TrainJobComplete)
	pods := w.jobSetPods(name)
	assert.Len(w, pods, 2)
	assert.Len(w, slurmJobs(pods), 1, "one allocation")
	return w.jobLogs(name, "node")
}

// ownPort checks that a gang meets at a port of its own, the same for all who name it,
// and takes it out of what they say.
func ownPort(w *world, log string) string {
	w.Helper()
	ports := map[string]bool{}
	for _, m := range regexp.MustCompile(`:(\d+)`).FindAllStringSubmatch(log, -1) {
		ports[m[1]] = true
	}
	require.Len(w, ports, 1, log)
	for port := range ports {
		assert.NotEqual(w, "29500", port, "what every runtime writes")
		log = strings.ReplaceAll(log, ":"+port, ":PORT")
	}
	return log
}

func torchTrainJob(w *world) {
	log := ownPort(w, environmentJob(w, "torch", "torch-distributed-hpc",
		`echo "rank $PET_NODE_RANK of $PET_NNODES, $PET_NPROC_PER_NODE each, at $PET_MASTER_ADDR:$PET_MASTER_PORT:$(PET_MASTER_PORT)"; getent hosts $PET_MASTER_ADDR >/dev/null && echo found`))
	for _, want := range []string{"rank 0 of 2, 1 each, at torch-node-0-0.torch:PORT:PORT\nfound", "rank 1 of 2"} {
		assert.Contains(w, log, want)
	}
}

func jaxTrainJob(w *world) {
	log := ownPort(w, environmentJob(w, "jax", "jax-distributed-hpc",
		`echo "process $JAX_PROCESS_ID of $JAX_NUM_PROCESSES at $JAX_COORDINATOR_ADDRESS"`))
	for _, want := range []string{"process 0 of 2 at jax-node-0-0.jax:PORT", "process 1 of 2"} {
		assert.Contains(w, log, want)
	}
}

func xgboostTrainJob(w *world) {
	log := ownPort(w, environmentJob(w, "xgb", "xgboost-distributed-hpc",
		`echo "task $DMLC_TASK_ID of $DMLC_NUM_WORKER at $DMLC_TRACKER_URI:$DMLC_TRACKER_PORT"`))
	for _, want := range []string{"task 0 of 2 at xgb-node-0-0.xgb:PORT", "task 1 of 2"} {
		assert.Contains(w, log, want)
	}
}
