package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/translate/wellknown"
)

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
