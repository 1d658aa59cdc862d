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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	for name, test := range map[string]func(*world){
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, env))
		})
	}
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

func initializersTrainJob(w *world) {
	shared := filepath.Join(filepath.Dir(filepath.Dir(w.env.Node.Spool())), "data-"+w.namespace)
	require.NoError(w, os.MkdirAll(shared, 0o777))
	require.NoError(w, os.Chmod(shared, 0o777))
	step := func(name, dependsOn string) string {
		return fmt.Sprintf(`
      - name: %[1]s
        %[2]s
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: %[1]s}}
          spec:
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                nodeSelector: {gangline.dev/cluster: %[3]s}
                tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
                containers:
                - name: %[1]s
                  image: host
                  command: [sh, -ec, 'mkdir -p /workspace/%[1]s; echo "$STORAGE_URI $WHO $TOKEN" >/workspace/%[1]s/from']
                  volumeMounts: [{name: initializer, mountPath: /workspace}]
                volumes: [{name: initializer, hostPath: {path: %[4]s}}]`, name, dependsOn, w.env.Name, shared)
	}
	node := strings.NewReplacer("trainjob-ancestor-step: node", "trainjob-ancestor-step: trainer").Replace(
		step("node", "dependsOn: [{name: dataset-initializer, status: Complete}, {name: model-initializer, status: Complete}]"))
	w.apply("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: steps}\nspec:\n  mlPolicy: {numNodes: 2}\n  template:\n    spec:\n      replicatedJobs:" +
		step("dataset-initializer", "replicas: 1") + step("model-initializer", "replicas: 1") + node)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "access"}, StringData: map[string]string{"TOKEN": "letmein"}})
	w.train("steps", `
runtimeRef: {kind: TrainingRuntime, name: steps}
initializer:
  dataset: {storageUri: "s3://bucket/data", env: [{name: WHO, value: dataset}], secretRef: {name: access}}
  model: {storageUri: "hf://org/model"}
trainer:
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -ec]
  args: ["cat /workspace/dataset-initializer/from /workspace/model-initializer/from"]
`)
	tj := w.waitTrainJob("steps", v1alpha1.TrainJobComplete)
	assert.Equal(w, strings.Repeat("s3://bucket/data dataset letmein\nhf://org/model  \n", 2), w.jobLogs("steps", "node"))
	assert.ElementsMatch(w, []v1alpha1.JobStatus{
		named("dataset-initializer", counts(0, 1, 0, 0)), named("model-initializer", counts(0, 1, 0, 0)), named("node", counts(0, 1, 0, 0)),
	}, tj.Status.JobsStatus)
	byStep := map[string]map[string]bool{}
	for _, p := range w.jobSetPods("steps") {
		step := p.Labels[jobset.ReplicatedJobNameKey]
		if byStep[step] == nil {
			byStep[step] = map[string]bool{}
		}
		byStep[step][p.Annotations[wellknown.AnnotationAllocation]] = true
	}
	assert.Len(w, byStep["node"], 1, "the training is one gang")
	for allocation := range byStep["node"] {
		assert.NotContains(w, byStep["dataset-initializer"], allocation, "a stage before it is another allocation")
	}
}

func suspendedTrainJob(w *world) {
	w.train("later", `
runtimeRef: {name: torch-distributed-hpc}
suspend: true
trainer:
  numNodes: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -c]
  args: ["echo started; sleep 3"]
`)
	tj := w.waitTrainJob("later", v1alpha1.TrainJobSuspended)
	assert.Equal(w, "TrainJob is suspended", tj.Status.Conditions[0].Message)
	js := &jobset.JobSet{}
	w.eventually("the JobSet is there, suspended", func(ctx context.Context) (bool, string) {
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "later"}, js)
		return err == nil && ptr.Deref(js.Spec.Suspend, false), fmt.Sprint(err)
	})
	assert.Empty(w, w.jobSetPods("later"))

	// JobSet itself refuses a change of a pod's volumes, suspended or not.
	w.must("patch", "trainjob", "later", "--type=merge", "-p", `{"spec":{"runtimePatches":[{"manager":"example.com/team","trainingRuntimeSpec":{"template":{
		"metadata":{"labels":{"team":"blue"}},
		"spec":{"replicatedJobs":[{"name":"node","template":{"spec":{"template":{"metadata":{"labels":{"wave":"second"}},"spec":{"volumes":[{"name":"scratch","emptyDir":{}}],
			"containers":[{"name":"node","volumeMounts":[{"name":"scratch","mountPath":"/scratch"}]}]}}}}}]}}}}]}}`)
	w.eventually("the JobSet follows the patch", func(ctx context.Context) (bool, string) {
		again := &jobset.JobSet{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "later"}, again); err != nil {
			return false, err.Error()
		}
		return again.Labels["team"] == "blue" && len(again.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Volumes) == 1, fmt.Sprint(again.Labels)
	})
	assert.NotNil(w, w.trainJob("later").Spec.RuntimePatches[0].Time, "admission notes when")
	assert.Empty(w, w.jobSetPods("later"))

	w.must("patch", "trainjob", "later", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	pods := w.waitAll("later", corev1.PodRunning, 2)
	assert.Equal(w, "second", pods[0].Labels["wave"])
	_, err := w.kubectl("patch", "trainjob", "later", "--type=merge", "-p", `{"spec":{"runtimePatches":[]}}`)
	require.ErrorContains(w, err, "RuntimePatches can only be modified when the TrainJob is suspended")

	tj = w.waitTrainJob("later", v1alpha1.TrainJobComplete)
	require.Len(w, tj.Status.Conditions, 2)
	assert.Equal(w, "Resumed", tj.Status.Conditions[0].Reason)
	assert.Equal(w, metav1.ConditionFalse, tj.Status.Conditions[0].Status)
}

func failingTrainJob(w *world) {
	w.train("bad", `
runtimeRef: {name: torch-distributed-hpc}
trainer:
  numNodes: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -c]
  args: ['[ "$PET_NODE_RANK" = 0 ] && exit 3; sleep 60']
`)
	tj := w.waitTrainJob("bad", v1alpha1.TrainJobFailed)
	require.Len(w, tj.Status.Conditions, 1)
	assert.Equal(w, "FailJobSetFailurePolicyAction", tj.Status.Conditions[0].Reason, "a program's failure is not tried again")
	assert.Contains(w, tj.Status.Conditions[0].Message, "bad-node-0")
	w.eventually("the counts follow", func(context.Context) (bool, string) {
		got := w.trainJob("bad").Status.JobsStatus
		return len(got) == 1 && *got[0].Failed == 1 && *got[0].Active == 0, fmt.Sprintf("%+v", got)
	})
	codes := ""
	for _, p := range w.jobSetPods("bad") {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Terminated != nil {
				codes += fmt.Sprintf("%d ", s.State.Terminated.ExitCode)
			}
		}
	}
	assert.Contains(w, codes, "3 ", "the program's own exit code")
}

func expiredTrainJob(w *world) {
	w.train("slow", `
runtimeRef: {name: torch-distributed-hpc}
activeDeadlineSeconds: 8
trainer:
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sleep, "600"]
`)
	pods := w.waitAll("slow", corev1.PodRunning, 1)
	tj := w.waitTrainJob("slow", v1alpha1.TrainJobFailed)
	assert.Equal(w, "DeadlineExceeded", tj.Status.Conditions[0].Reason)
	w.waitNoJobSet("slow")
	w.waitGone(pods[0].Name)
	w.waitJobGone(pods...)
	assert.NotEqual(w, "RUNNING", w.jobs(pods...)[pods[0].Annotations[wellknown.AnnotationJobID]].State)
}

func deletedTrainJob(w *world) {
	w.train("gone", `
runtimeRef: {name: mpi-distributed-hpc}
trainer:
  numNodes: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sleep, "600"]
`)
	pods := w.waitAll("gone", corev1.PodRunning, 2)
	w.must("get", "secret", "gone-mpi-ssh-auth")
	w.must("get", "configmap", "gone-mpi-hostfile", "gone-runtime-snapshot")
	w.must("delete", "secret", "gone-mpi-ssh-auth")
	w.eventually("a deleted Secret is made again", func(context.Context) (bool, string) {
		_, err := w.kubectl("get", "secret", "gone-mpi-ssh-auth")
		return err == nil, fmt.Sprint(err)
	})
	w.must("delete", "trainjob", "gone")
	w.waitNoJobSet("gone")
	for _, p := range pods {
		w.waitGone(p.Name)
	}
	w.waitJobGone(pods...)
	w.eventually("nothing of it is left", func(context.Context) (bool, string) {
		out := w.must("get", "secret,configmap", "-o", "name")
		return !strings.Contains(out, "/gone-"), out
	})
}

func (w *world) waitNoJobSet(name string) {
	w.Helper()
	w.eventually("JobSet "+name+" is gone", func(ctx context.Context) (bool, string) {
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &jobset.JobSet{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// mistakenTrainJobs are refused when they are applied or, where Kubeflow Trainer
// admits them, explained by an Event.
func mistakenTrainJobs(w *world) {
	apply := func(name, trainer string) error {
		_, err := control.Kubectl(w.Context(), fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: %s}
spec:
  runtimeRef: {name: torch-distributed-hpc}
  trainer: %s
`, name, trainer), "-n", w.namespace, "apply", "-f", "-")
		return err
	}
	for trainer, says := range map[string]string{
		"{numNodes: -1}":                          "spec.trainer.numNodes",
		"{numNodes: 2000000000}":                  "spec.trainer.numNodes",
		"{env: [{name: PET_NNODES, value: '3'}]}": "must not have reserved envs",
	} {
		assert.ErrorContains(w, apply("refused", trainer), says, trainer)
	}
	require.NoError(w, apply("unlimited", "{command: [hostname], resourcesPerNode: {requests: {nvidia.com/gpu: '2'}}}"))
	w.eventually("describe says why no pod comes", func(context.Context) (bool, string) {
		out := w.must("describe", "trainjob", "unlimited")
		return strings.Contains(out, "the pods of job node: template.spec.containers[0].resources.limits: Required value"), out
	})
}
