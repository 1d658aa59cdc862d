package e2e

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestNoUserNamespaces is about HPC nodes whose kernel lets nobody make user
// namespaces: pods have no private root there.
func TestNoUserNamespaces(t *testing.T) {
	t.Parallel()
	env := environmentWith(t, harness.Options{Name: "nouserns", WorkloadManager: "slurm", Nodes: 2, NoUserNamespaces: true})
	runAll(t, env, map[string]func(*world){
		"a pod without mounts of its own runs":              plainPod,
		"one with mounts is refused, and told why":          mountedPod,
		"rendezvous variables hold addresses":               rendezvous,
		"mpirun by the names in the hostfile, over our ssh": mpiWithoutNames,
		"preflight names it":                                preflightNamesUserNamespaces,
		"PyTorch trains on two nodes":                       func(w *world) { torchTrains(w, 2, "5", 2) },
		"PyTorch trains in two pods of one node":            func(w *world) { torchTrains(w, 2, "4", 1) },
	})
}

func plainPod(w *world) {
	pod := w.makePod("plain", devices+"; unshare -U true || echo forbidden; sleep 600", resources("1", "1"))
	pod.Spec.Volumes = []corev1.Volume{{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}
	w.create(pod)
	w.waitPhase("plain", corev1.PodRunning)
	out := w.must("exec", "plain", "--", "sh", "-c", devices)
	assert.Regexp(w, `^cuda \[\d\]`, out)
	w.waitLog("plain", out, "forbidden") // or this test shows nothing
	w.must("delete", "pod", "plain", "--wait=false")
}

func mountedPod(w *world) {
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "b"}})
	pod := w.makePod("mounted", "true", resources("1", "0"))
	pod.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
	}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/etc/settings"}}
	w.create(pod)
	failed := w.waitPhase("mounted", corev1.PodFailed)
	assert.Equal(w, wellknown.ReasonPrivateRootUnavailable, failed.Status.Reason)
	for _, part := range []string{`volume "settings" cannot be mounted at /etc/settings`, "user namespace", "have user namespaces allowed on the HPC nodes"} {
		assert.Contains(w, failed.Status.Message, part)
	}
	w.waitEvent("mounted", wellknown.ReasonPrivateRootUnavailable, "have user namespaces allowed")
}

func rendezvous(w *world) {
	show := `echo "$MASTER_ADDR $PET_MASTER_ADDR $PET_RDZV_ENDPOINT $JAX_COORDINATOR_ADDRESS $DMLC_TRACKER_URI $LWS_LEADER_ADDRESS"`
	rj := w.replicated("w", show+"; sleep 600", 2, resources("5", "0"))
	host := "meet-w-0-0.meet"
	rj.Template.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "MASTER_ADDR", Value: "meet-w-0-0"},
		{Name: "PET_MASTER_ADDR", Value: host},
		{Name: "PET_RDZV_ENDPOINT", Value: host + "." + w.namespace + ":29500"},
		{Name: "JAX_COORDINATOR_ADDRESS", Value: host + ":6666"},
		{Name: "DMLC_TRACKER_URI", Value: host + "." + w.namespace + ".svc"},
		{Name: "LWS_LEADER_ADDRESS", Value: host + "." + w.namespace + ".svc.cluster.local"},
	}
	w.create(makeJobSet("meet", rj))
	pods := w.waitAll("meet", corev1.PodRunning, 2)
	ip := ""
	for _, p := range pods {
		if strings.HasPrefix(p.Name, "meet-w-0-0-") {
			ip = p.Status.PodIP
		}
	}
	assert.NotEqual(w, pods[0].Status.PodIP, pods[1].Status.PodIP, "two nodes")
	said := ""
	for _, p := range pods {
		w.waitLog(p.Name, "\n")
		log := w.must("logs", p.Name)
		assert.Regexp(w, fmt.Sprintf(`^%[1]s %[1]s %[1]s:2\d{4} %[1]s:2\d{4} %[1]s %[1]s\n$`, regexp.QuoteMeta(ip)), log)
		assert.NotContains(w, log, "29500", "the gang's own port")
		assert.Equal(w, log, w.must("exec", p.Name, "--", "sh", "-c", show))
		assert.Equal(w, cmp.Or(said, log), log, "the same for all")
		said = log
	}
	w.must("delete", "jobset", "meet")
	w.waitJobGone(pods...)
}

// waitLog waits until a pod has said all of these.
func (w *world) waitLog(pod string, parts ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("pod %s says %q", pod, parts), func(context.Context) (bool, string) {
		log := w.must("logs", pod)
		return containsAll(log, parts...), log
	})
}

// mpiWithoutNames mounts Kubeflow's Secret, which is not what keeps the pods from
// running.
func mpiWithoutNames(w *world) {
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mpi-ssh-auth"}, StringData: map[string]string{"id_rsa": "x", "id_rsa.pub": "y", "authorized_keys": "y"}})
	rj := w.replicated("w", `test $GANGLINE_RANK = 0 || exec sleep 600
ssh mpi-w-0-1.mpi echo reached \$GANGLINE_RANK
mpirun sh -c 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE in pod $GANGLINE_RANK"'
timeout 60 mpiexec.mpich sh -c 'echo "mpich $PMI_RANK of $PMI_SIZE in pod $GANGLINE_RANK"'; sleep 600`, 2, resources("5", "0"))
	spec := &rj.Template.Spec.Template.Spec
	spec.Volumes = []corev1.Volume{{Name: "mpi-ssh-auth", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mpi-ssh-auth"}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "mpi-ssh-auth", MountPath: "/home/mpiuser/.ssh"}}
	w.create(makeJobSet("mpi", rj))
	pods := w.waitAll("mpi", corev1.PodRunning, 2)
	for _, p := range pods {
		if !strings.HasPrefix(p.Name, "mpi-w-0-0-") {
			continue
		}
		w.waitLog(p.Name, "reached 1", "rank 0 of 2 in pod 0", "rank 1 of 2 in pod 1", "mpich 0 of 2 in pod 0", "mpich 1 of 2 in pod 1")
	}
	w.must("delete", "jobset", "mpi")
	w.waitJobGone(pods...)
}
