package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// localDisk is where the HPC nodes of the group have their own disks: each has a /tmp of
// its own.
const localDisk = "/tmp/nvme"

// storageClass is one whose volumes are made by the node. The others are known to its
// rules alone.
const storageClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: hpc-path}
provisioner: path.gangline.dev
allowedTopologies: [{matchLabelExpressions: [{key: gangline.dev/cluster, values: [data]}]}]
volumeBindingMode: WaitForFirstConsumer
`

// TestData is what a site gives to the pods of two users: their claims, scratch space,
// variables, limits and devices.
func TestData(t *testing.T) {
	t.Parallel()
	manifest := filepath.Join(root(), "charts", "manifests", "node", "provisioner.yaml")
	_, err := control.Kubectl(t.Context(), "", "apply", "-f", manifest)
	require.NoError(t, err)
	_, err = control.Kubectl(t.Context(), storageClass, "apply", "-f", "-")
	require.NoError(t, err)
	var shared string
	env := environmentWith(t, harness.Options{Name: "data", WorkloadManager: "slurm", Nodes: 2, Login: true, Configure: func(c *provider.Config) {
		shared = filepath.Dir(filepath.Dir(filepath.Dir(c.Spool))) // {user}/spool/data is below it
		c.Identity = identities()
		c.Volumes.Provision, c.Volumes.Scratch = true, localDisk+"/{job}"
		c.Volumes.Claims = []translate.ClaimRule{
			{StorageClass: "project", Path: shared + "/project/{namespace}/{claim}", Create: true, Mode: "0770"},
			{StorageClass: "private", Path: shared + "/" + harness.Users()[0]},
			{Default: true, Path: shared + "/{user}/claims/{namespace}/{claim}", Create: true, Mode: "0700"},
		}
		c.Environment = translate.SiteVariables{
			{Name: "HF_HOME", Value: shared + "/{user}/cache/huggingface"},
			{Name: "NCCL_SOCKET_IFNAME", Value: "ib0", Partitions: []string{"batch"}},
			{Name: "NCCL_SOCKET_IFNAME", Value: "eth0"},
			{Name: "NCCL_DEBUG", Value: "WARN"},
			{Name: "HOME", Value: shared + "/{user}"},
		}
		c.Limits = translate.ProcessLimits{"stack": intstr.FromString("4Mi"), "core": intstr.FromInt32(0), "nofile": intstr.FromString("hard")}
		c.Resources = translate.DeviceResources{"rdma/hca_shared_devices_a": translate.EveryNode}
	}})
	for _, node := range []string{"data-hpc1", "data-hpc2"} {
		_, err := env.Slurm.Output(t.Context(), node, "mkdir", "-m", "1777", localDisk)
		require.NoError(t, err)
	}
	project := filepath.Join(shared, "project")
	// The kernel lets directories be setgid for a group that their maker is in.
	require.NoError(t, errors.Join(os.MkdirAll(project, 0o755), os.Chown(project, 0, env.Slurm.GID()), os.Chmod(project, 0o775|os.ModeSetgid)))
	runAll(t, env, map[string]func(*world){
		"claims of two users, of a class whose volumes are made":   provisionedClaims,
		"a claim that the pod's user has no access to":             closedClaim,
		"a dataset is fetched on the HPC side, into a claim":       initializedClaim,
		"what the site gives: variables, limits, scratch, devices": siteGives,
	})
}

// pathClaim makes a claim of the class whose volumes are made.
func (w *world) pathClaim(name string) {
	w.Helper()
	w.manifests(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + name + `}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Ti}}, storageClassName: hpc-path}
`)
}

// withClaim mounts a claim into a pod.
func withClaim(pod *corev1.Pod, claim, path string) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: path})
	return pod
}

func provisionedClaims(w *world) {
	w.account("other")
	w.pathClaim("data")
	w.claim("common", "project", "ReadWriteMany", "csi: {driver: none.example.com, volumeHandle: "+w.namespace+"}")
	first := withClaim(w.podOf("default", "first", "id -un > /data/who; stat -c '%a %g' /data /common; cat /data/who"), "data", "/data")
	w.create(withClaim(first, "common", "/common"), withClaim(w.podOf("other", "second", "id -un > /data/who; cat /data/who"), "data", "/data"))
	users := harness.Users()
	w.waitPhase("first", corev1.PodSucceeded)
	group := w.env.Slurm.GID()
	assert.Equal(w, fmt.Sprintf("700 %d\n2770 %d\n%s\n", group, group, users[0]), w.must("logs", "first"), "setgid directories give their group on")
	w.waitPhase("second", corev1.PodSucceeded)
	assert.Equal(w, users[1]+"\n", w.must("logs", "second"), "each user has a directory of his own behind the claim")

	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(w, w.client.Get(w.Context(), keyOf(w, "data"), claim))
	w.must("delete", "pod", "first", "second")
	w.must("delete", "pvc", "data")
	w.eventually("the volume goes with its claim", func(ctx context.Context) (bool, string) {
		volume := &corev1.PersistentVolume{}
		err := w.client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
		return apierrors.IsNotFound(err), fmt.Sprint(err, volume.Status.Phase)
	})
	for _, user := range users {
		who := filepath.Join(w.env.Slurm.SharedDir(), user, "claims", w.namespace, "data", "who")
		assert.FileExists(w, who, "what users have written stays")
	}
}

func closedClaim(w *world) {
	w.account("other")
	w.claim("theirs", "private", "ReadOnlyMany", "csi: {driver: none.example.com, volumeHandle: "+w.namespace+"}")
	w.create(withClaim(w.podOf("default", "owner", "ls -d /data; touch /data/x 2>/dev/null || echo read-only"), "theirs", "/data"),
		withClaim(w.podOf("other", "stranger", "true"), "theirs", "/data"))
	w.waitPhase("owner", corev1.PodSucceeded)
	assert.Equal(w, "/data\nread-only\n", w.must("logs", "owner"))
	users := harness.Users()
	dir := filepath.Join(w.env.Slurm.SharedDir(), users[0])
	w.waitEvent("stranger", "FailedMount", fmt.Sprintf("the HPC user %s has no access to %s: %s is another user's, with mode drwx------", users[1], dir, dir))
	assert.Equal(w, corev1.PodPending, w.pod("stranger").Status.Phase)
	w.must("delete", "pod", "stranger")
	w.waitGone("stranger")
}

func initializedClaim(w *world) {
	w.pathClaim("corpus")
	step := func(name, ancestor, dependsOn, command string) string {
		return fmt.Sprintf(`
      - name: %[1]s
        %[3]s
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: %[2]s}}
          spec:
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                nodeSelector: {gangline.dev/cluster: %[4]s}
                tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
                containers:
                - name: %[1]s
                  image: host
                  command: [sh, -ec, '%[5]s']
                  volumeMounts: [{name: initializer, mountPath: /workspace}]
                volumes: [{name: initializer, persistentVolumeClaim: {claimName: corpus}}]`, name, ancestor, dependsOn, w.env.Name, command)
	}
	w.apply("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: fetched}\nspec:\n  mlPolicy: {numNodes: 2}\n  template:\n    spec:\n      replicatedJobs:" +
		step("dataset-initializer", "dataset-initializer", "replicas: 1", `mkdir -p /workspace/dataset; echo "$STORAGE_URI" > /workspace/dataset/from`) +
		step("node", "trainer", "dependsOn: [{name: dataset-initializer, status: Complete}]", "cat /workspace/dataset/from"))
	w.train("fetched", `
runtimeRef: {kind: TrainingRuntime, name: fetched}
initializer: {dataset: {storageUri: "hf://org/corpus"}}
trainer: {resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}}
`)
	w.waitTrainJob("fetched", v1alpha1.TrainJobComplete)
	assert.Equal(w, strings.Repeat("hf://org/corpus\n", 2), w.jobLogs("fetched", "node"), "both pods read what the initializer has written")
}

func siteGives(w *world) {
	pod := w.makePod("given", `
echo $HF_HOME $HOME $NCCL_SOCKET_IFNAME $NCCL_DEBUG; ulimit -S -s; ulimit -S -c; test $(ulimit -S -n) = $(ulimit -H -n) && echo raised
python3 -c 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=1<<20); print("shared memory"); m.close(); m.unlink()'
echo mine > /dev/shm/mine-only; ls /dev/shm; echo x > /scratch/x; stat -c %a /scratch`, resources("1", "0"))
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NCCL_DEBUG", Value: "INFO"}}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"rdma/hca_shared_devices_a": resource.MustParse("1")}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}, {Name: "scratch", MountPath: "/scratch"}}
	// Without a volume it is the node's own /dev/shm.
	bare := w.makePod("bare", `python3 -c 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=1<<20); print("shared memory"); m.close(); m.unlink()'`, resources("1", "0"))
	w.create(pod, bare)
	done := w.waitPhase("given", corev1.PodSucceeded)
	user := harness.Users()[0]
	home := filepath.Join(w.env.Slurm.SharedDir(), user)
	assert.Equal(w, home+"/cache/huggingface "+home+" ib0 INFO\n4096\n0\nraised\nshared memory\nmine-only\n777\n", w.must("logs", "given"))
	w.waitPhase("bare", corev1.PodSucceeded)
	assert.Equal(w, "shared memory\n", w.must("logs", "bare"))

	w.waitJobGone(*done)
	node := done.Annotations[wellknown.AnnotationHPCNode]
	_, err := w.env.Slurm.Output(w.Context(), node, "test", "-e", filepath.Join(localDisk, done.Annotations[wellknown.AnnotationJobID]))
	assert.Error(w, err, "the job's directory goes with the job")
}
