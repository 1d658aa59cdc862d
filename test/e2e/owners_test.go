package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/translate/wellknown"
)

// TestOwners is about gangs whose owners are other projects'. Their controllers do
// not run here: the tests create what they would.
func TestOwners(t *testing.T) {
	t.Parallel()
	crds, err := os.ReadFile(filepath.Join("testdata", "owner-crds.yaml"))
	require.NoError(t, err)
	_, err = control.Kubectl(t.Context(), string(crds), "apply", "-f", "-")
	require.NoError(t, err)
	_, err = control.Kubectl(t.Context(), string(crds), "wait", "--for=condition=Established", "--timeout=60s", "-f", "-")
	require.NoError(t, err)
	env := environment(t, "owners", "slurm", 4, nil)
	t.Run("gangs outlive the virtual node's program", func(t *testing.T) { ownersAfterRestart(newWorld(t, env)) }) // before the others
	runAll(t, env, map[string]func(*world){
		"an MPIJob, its launcher late":               mpiJobLateLauncher,
		"an MPIJob whose launcher is a worker":       mpiJobLauncherAsWorker,
		"a LeaderWorkerSet is a gang a group":        leaderWorkerSet,
		"a LeaderWorkerSet's workers may be late":    leaderWorkerSetLate,
		"Kubernetes' own PodGroup":                   ownPodGroup,
		"scheduler-plugins' PodGroup, which is late": latePodGroup,
		"Volcano's PodGroup":                         volcanoPodGroup,
		"a JobSet comes before a PodGroup":           jobSetInPodGroup,
	})
}

// owner creates an object and returns it with its UID.
func (w *world) owner(manifest string) *unstructured.Unstructured {
	w.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(w, yaml.Unmarshal([]byte(manifest), &u.Object))
	w.create(u)
	return u
}

// template is a spec as part of a manifest.
func template(w *world, spec corev1.PodSpec) string {
	w.Helper()
	data, err := yaml.Marshal(map[string]any{"spec": spec})
	require.NoError(w, err)
	json, err := yaml.YAMLToJSON(data)
	require.NoError(w, err)
	return string(json)
}

// gangPods reads pods once they are in a phase, and checks that they are one gang
// in one Slurm job.
func (w *world) gangPods(phase corev1.PodPhase, names ...string) []corev1.Pod {
	w.Helper()
	var pods []corev1.Pod
	for _, name := range names {
		pods = append(pods, *w.waitPhase(name, phase))
	}
	assert.Len(w, slurmJobs(pods), 1, "one allocation")
	leaders := map[string]bool{}
	for id := range w.jobs(pods...) {
		leaders[strings.Split(id, "+")[0]] = true
	}
	assert.Len(w, leaders, 1, "one Slurm job")
	return pods
}

// waitWaiting waits until a pod says why it waits.
func (w *world) waitWaiting(pod, says string) {
	w.Helper()
	w.waitPod(pod, "waits: "+says, func(p *corev1.Pod) bool {
		return p.Status.Reason == wellknown.ReasonWaitingForGang && strings.Contains(p.Status.Message, says)
	})
}

// mpiPod is a pod as the MPI operator makes it.
func (w *world) mpiPod(job *unstructured.Unstructured, role, index, name string, spec corev1.PodSpec) *corev1.Pod {
	spec.Hostname, spec.Subdomain = name, job.GetName()
	spec.Volumes = []corev1.Volume{
		{Name: "ssh-auth", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: job.GetName() + "-ssh", DefaultMode: ptr.To[int32](0o600), Items: []corev1.KeyToPath{
				{Key: "ssh-privatekey", Path: "id_rsa"}, {Key: "ssh-publickey", Path: "id_rsa.pub"}, {Key: "ssh-publickey", Path: "authorized_keys"},
			},
		}}},
		{Name: "mpi-job-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: job.GetName() + "-config"},
		}}},
	}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "ssh-auth", MountPath: "/root/.ssh"}}
	if role == "launcher" {
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "mpi-job-config", MountPath: "/etc/mpi"})
		spec.Containers[0].Env = append(spec.Containers[0].Env,
			corev1.EnvVar{Name: "OMPI_MCA_orte_default_hostfile", Value: "/etc/mpi/hostfile"},
			corev1.EnvVar{Name: "OMPI_MCA_orte_keep_fqdn_hostnames", Value: "true"},
			corev1.EnvVar{Name: "OMPI_MCA_plm_rsh_args", Value: "-o ConnectionAttempts=10"})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{
			"training.kubeflow.org/operator-name": "mpi-operator",
			wellknown.LabelTrainingJobName:        job.GetName(),
			wellknown.LabelTrainingJobRole:        role,
		},
	}, Spec: spec}
	if index != "" {
		pod.Labels[wellknown.LabelTrainingReplicaIndex] = index
	}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, job.GroupVersionKind())}
	return pod
}

// mpiLauncher is the operator's Job around the launcher's pod.
func (w *world) mpiLauncher(job *unstructured.Unstructured, index string, spec corev1.PodSpec) client.Object {
	pod := w.mpiPod(job, "launcher", index, job.GetName()+"-launcher", spec)
	launcher := w.makeJob(pod.Name, "", resources("1", "0"))
	launcher.OwnerReferences = pod.OwnerReferences
	launcher.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	return launcher
}

// mpiFiles are the Secret and the ConfigMap that the operator makes.
func (w *world) mpiFiles(job *unstructured.Unstructured, hostfile string) {
	w.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: job.GetName() + "-ssh"}, StringData: map[string]string{
			"ssh-privatekey": "a private key", "ssh-publickey": "a public key",
		}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: job.GetName() + "-config"}, Data: map[string]string{"hostfile": hostfile}},
	)
}

// launcherPod waits for the launcher's pod, whose name ends at random.
func (w *world) launcherPod(job string) string {
	w.Helper()
	name := ""
	w.eventually("the launcher's pod exists", func(context.Context) (bool, string) {
		pods := w.pods("batch.kubernetes.io/job-name", job+"-launcher")
		if len(pods) == 0 {
			return false, "no pod"
		}
		name = pods[0].Name
		return true, ""
	})
	return name
}

const mpiHello = `mpirun -x COLOUR sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE in $(hostname), colour $COLOUR"'`

func mpiJobLateLauncher(w *world) {
	workers, launcher := w.spec("sleep 600", resources("2", "1")), w.spec("ls /root/.ssh; cat /root/.ssh/authorized_keys; echo; COLOUR=blue "+mpiHello, resources("1", "0"))
	job := w.owner(fmt.Sprintf(`
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  slotsPerWorker: 2
  launcherCreationPolicy: WaitForWorkersReady
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: %s}
    Worker: {replicas: 2, template: %s}
`, template(w, launcher), template(w, workers)))
	host := func(name string) string { return fmt.Sprintf("%s.pi.%s.svc slots=2\n", name, w.namespace) }
	w.mpiFiles(job, host("pi-worker-0")+host("pi-worker-1"))
	w.create(w.mpiPod(job, "worker", "1", "pi-worker-1", *workers.DeepCopy()))
	w.waitWaiting("pi-worker-1", "1 of 2 pods; missing: pi-worker-0 (it does not exist)")
	w.create(w.mpiPod(job, "worker", "0", "pi-worker-0", *workers.DeepCopy()))
	pods := w.gangPods(corev1.PodRunning, "pi-worker-0", "pi-worker-1")
	before := w.jobs(pods...)

	w.create(w.mpiLauncher(job, "", launcher))
	name := w.launcherPod("pi")
	w.gangPods(corev1.PodSucceeded, name)
	log := w.must("logs", name)
	assert.Contains(w, log, "authorized_keys\nid_rsa\nid_rsa.pub\na public key")
	for rank, worker := range map[int]int{0: 0, 1: 0, 2: 1, 3: 1} {
		assert.Contains(w, log, fmt.Sprintf("rank %d of 4 in pi-worker-%d, colour blue", rank, worker))
	}
	assert.Equal(w, before, w.jobs(append(pods, *w.pod(name))...), "its place was there from the start")

	w.must("delete", "mpijob", "pi", "--wait=false")
	w.waitGone("pi-worker-0")
	w.waitGone("pi-worker-1")
	w.waitJobGone(pods...)
}

// ownersAfterRestart has an MPIJob without its launcher and a pod without its
// PodGroup when the virtual node's program dies, and both come while it is away.
func ownersAfterRestart(w *world) {
	spec := w.spec("echo rank $GANGLINE_RANK of $GANGLINE_SIZE; sleep 600", resources("1", "0"))
	job := w.owner(fmt.Sprintf(`
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  launcherCreationPolicy: WaitForWorkersReady
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: %[1]s}
    Worker: {replicas: 1, template: %[1]s}
`, template(w, spec)))
	w.mpiFiles(job, "")
	w.create(w.mpiPod(job, "worker", "0", "pi-worker-0", *spec.DeepCopy()))
	w.gangPods(corev1.PodRunning, "pi-worker-0")
	w.members(func(p *corev1.Pod) { p.Labels = map[string]string{wellknown.LabelPodGroup: "ring"} }, "w-0")
	w.waitWaiting("w-0", "there is no PodGroup")

	require.NoError(w, w.env.Node.Kill())
	w.create(w.mpiLauncher(job, "", spec))
	w.owner("apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: ring}\nspec: {minMember: 1}")
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.ranks("w-0")
	name := w.launcherPod("pi")
	pods := w.gangPods(corev1.PodRunning, "pi-worker-0", name)
	w.waitLog(name, "rank 1 of 2")

	// And with no pod left, it is the allocation that knows whose it is.
	require.NoError(w, w.env.Node.Kill())
	w.must("delete", "mpijob", "pi")
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.must("delete", "pod", "pi-worker-0", "--wait=false", "--ignore-not-found")
	w.waitJobGone(pods...)
}

func mpiJobLauncherAsWorker(w *world) {
	spec := w.spec("echo rank $GANGLINE_RANK of $GANGLINE_SIZE; sleep 600", resources("1", "0"))
	launcher := w.spec("COLOUR=red "+mpiHello+"; echo slot $GANGLINE_RANK of $GANGLINE_SIZE", resources("1", "0"))
	job := w.owner(fmt.Sprintf(`
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: all}
spec:
  runLauncherAsWorker: true
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: %s}
    Worker: {replicas: 2, template: %s}
`, template(w, launcher), template(w, spec)))
	host := func(name string) string { return fmt.Sprintf("%s.all.%s.svc slots=1\n", name, w.namespace) }
	w.mpiFiles(job, host("all-launcher")+host("all-worker-0")+host("all-worker-1"))
	w.create(w.mpiLauncher(job, "0", launcher))
	name := w.launcherPod("all")
	w.waitWaiting(name, "1 of 3 pods; missing: all-worker-0")
	// The operator counts the launcher among the workers.
	w.create(w.mpiPod(job, "worker", "1", "all-worker-0", *spec.DeepCopy()), w.mpiPod(job, "worker", "2", "all-worker-1", *spec.DeepCopy()))
	w.gangPods(corev1.PodSucceeded, name)
	workers := w.gangPods(corev1.PodRunning, "all-worker-0", "all-worker-1")
	log := w.must("logs", name)
	for rank, pod := range []string{"all-launcher", "all-worker-0", "all-worker-1"} {
		assert.Contains(w, log, fmt.Sprintf("rank %d of 3 in %s, colour red", rank, pod))
	}
	assert.Contains(w, log, "slot 0 of 3")
	assert.Equal(w, "rank 2 of 3\n", w.must("logs", "all-worker-1"))

	// The operator's word that the job is over, and its clean-up.
	w.must("patch", "mpijob", "all", "--type=merge", "-p", `{"status":{"conditions":[{"type":"Succeeded","status":"True"}]}}`)
	w.must("delete", "pod", "all-worker-0", "all-worker-1", "--wait=false")
	w.waitJobGone(workers...)
}

// lwsPod is a pod as a LeaderWorkerSet's StatefulSets make it.
func (w *world) lwsPod(set string, group, worker, size int, spec corev1.PodSpec) *corev1.Pod {
	name := fmt.Sprintf("%s-%d", set, group)
	leader := name
	if worker > 0 {
		name = fmt.Sprintf("%s-%d", name, worker)
	}
	spec.Hostname, spec.Subdomain = name, set
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "LWS_LEADER_ADDRESS", Value: fmt.Sprintf("%s.%s.%s", leader, set, w.namespace)}}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			wellknown.LabelLWSName: set, wellknown.LabelLWSGroupIndex: fmt.Sprint(group), wellknown.LabelLWSWorkerIndex: fmt.Sprint(worker),
			wellknown.LabelLWSRevision: "5f7", "leaderworkerset.sigs.k8s.io/group-key": "a-hash",
		},
		Annotations: map[string]string{wellknown.AnnotationLWSSize: fmt.Sprint(size)},
	}, Spec: spec}
}

const showRank = `echo "$(hostname) is rank $GANGLINE_RANK of $GANGLINE_SIZE"; getent hosts $LWS_LEADER_ADDRESS >/dev/null && echo leader found; sleep 600`

func leaderWorkerSet(w *world) {
	spec := w.spec(showRank, resources("1", "0"))
	w.owner(fmt.Sprintf(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: llm}
spec: {replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: %s}}
`, template(w, spec)))
	var groups [2][]corev1.Pod
	for g := range groups {
		w.create(w.lwsPod("llm", g, 0, 3, *spec.DeepCopy()))
		w.waitWaiting(fmt.Sprintf("llm-%d", g), fmt.Sprintf("1 of 3 pods; missing: llm-%d-1", g))
		w.create(w.lwsPod("llm", g, 2, 3, *spec.DeepCopy()), w.lwsPod("llm", g, 1, 3, *spec.DeepCopy()))
	}
	for g := range groups {
		names := []string{fmt.Sprintf("llm-%d", g), fmt.Sprintf("llm-%d-1", g), fmt.Sprintf("llm-%d-2", g)}
		groups[g] = w.gangPods(corev1.PodRunning, names...)
		for rank, name := range names {
			w.eventually(name+" says its rank", func(context.Context) (bool, string) {
				log := w.must("logs", name)
				return log == fmt.Sprintf("%s is rank %d of 3\nleader found\n", name, rank), log
			})
		}
	}
	assert.Len(w, slurmJobs(append(groups[0], groups[1]...)), 2, "a job for each group")

	// Scaled down, the second group goes at once and the first stays.
	w.must("patch", "leaderworkerset", "llm", "--type=merge", "-p", `{"spec":{"replicas":1}}`)
	w.must("delete", "pod", "llm-1", "llm-1-1", "llm-1-2", "--wait=false")
	w.waitJobGone(groups[1]...)
	assert.Equal(w, corev1.PodRunning, w.pod("llm-0").Status.Phase)
	w.must("delete", "leaderworkerset", "llm")
	w.must("delete", "pod", "llm-0", "llm-0-1", "llm-0-2", "--wait=false")
	w.waitJobGone(groups[0]...)
}

func leaderWorkerSetLate(w *world) {
	spec := w.spec(showRank, resources("1", "0"))
	w.owner(fmt.Sprintf(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: late}
spec: {replicas: 1, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 2, workerTemplate: %s}}
`, template(w, spec)))
	w.create(w.lwsPod("late", 0, 0, 2, *spec.DeepCopy()))
	w.gangPods(corev1.PodRunning, "late-0")
	w.create(w.lwsPod("late", 0, 1, 2, *spec.DeepCopy()))
	w.gangPods(corev1.PodRunning, "late-0", "late-0-1")
}
