package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/test/slurm"
)

// outside is a place beside the API server, with a Secret's keys as a pod there
// would mount them.
type outside struct {
	*world
	dir string
}

func newOutside(w *world, private, public []byte) outside {
	w.Helper()
	dir, err := os.MkdirTemp("", "outside") //nolint:usetesting // an ordinary user must get in
	require.NoError(w, err)
	w.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(w, os.Chmod(dir, 0o755))
	o := outside{w, dir}
	// A Secret's files are root's and the group's that the pod has as fsGroup.
	o.write("id_rsa", private, 0o640)
	require.NoError(w, os.Chown(filepath.Join(dir, "id_rsa"), 0, w.env.Slurm.GID()))
	o.write("id_rsa.pub", public, 0o644)
	// What the image of Kubeflow's runtimes says (mpi-operator's base image).
	o.write("ssh_config", fmt.Appendf(nil, "Host *\n  Port 2222\n  IdentityFile %s/id_rsa\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n", dir), 0o644)
	return o
}

func (o outside) write(name string, data []byte, mode os.FileMode) {
	o.Helper()
	require.NoError(o, os.WriteFile(filepath.Join(o.dir, name), data, mode))
}

// names makes the pods' names known, as a headless Service does inside the cluster.
func (o outside) names(addresses map[string]string) {
	hosts, err := os.ReadFile("/etc/hosts")
	require.NoError(o, err)
	for name, address := range addresses {
		hosts = fmt.Appendf(hosts, "%s %s\n", address, name)
	}
	o.write("hosts", hosts, 0o644)
}

// run runs a program there as an ordinary user who has those names.
func (o outside) run(env []string, argv ...string) (string, error) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), patience)
	defer cancel()
	const enter = `mount --bind "$1" /etc/hosts && uid=$2 gid=$3 && shift 3 &&
exec setpriv --reuid "$uid" --regid "$gid" --clear-groups -- env -i HOME=/tmp PATH=/usr/bin:/bin "$@"`
	words := []string{"--mount", "sh", "-c", enter, "sh", filepath.Join(o.dir, "hosts"), fmt.Sprint(o.env.Slurm.UID()), fmt.Sprint(o.env.Slurm.GID())}
	cmd := exec.CommandContext(ctx, "unshare", slices.Concat(words, env, argv)...)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sshd is a worker whose command is sshd, with the keys of a Secret.
func (w *world) sshd(name string, pods int32, r corev1.ResourceRequirements, command ...string) jobset.ReplicatedJob {
	job := w.replicated(name, "", pods, r)
	spec := &job.Template.Spec.Template.Spec
	spec.Containers[0].Command = command
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "keys", MountPath: "/home/mpiuser/.ssh"}}
	spec.Volumes = []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "keys", DefaultMode: ptr.To[int32](0o400),
	}}}}
	return job
}

// createKeys makes the Secret of those workers.
func (w *world) createKeys() outside {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	require.NoError(w, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(w, err)
	line, err := ssh.NewPublicKey(key.Public())
	require.NoError(w, err)
	private, public := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), ssh.MarshalAuthorizedKey(line)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Data: map[string][]byte{"id_rsa": private, "authorized_keys": public}})
	return newOutside(w, private, public)
}

func sshdSharesNode(w *world) {
	o := w.createKeys()
	js := w.pair("near", `
for i in 0 1; do ssh near-worker-0-$i 'echo "in $(hostname)"'; done
while ! [ -e /tmp/near-done-`+w.namespace+` ]; do sleep 0.2; done`, 0)
	js.Spec.ReplicatedJobs[1] = w.sshd("worker", 2, resources("1", "0"), "/usr/sbin/sshd", "-De", "-p", "2422")
	w.create(js)
	pods := w.waitAll("near", corev1.PodRunning, 3)
	addresses, logs := map[string]string{}, ""
	for _, p := range pods {
		addresses[p.Annotations["batch.kubernetes.io/job-completion-index"]] = p.Status.PodIP
		if p.Labels[jobset.ReplicatedJobNameKey] == "worker" {
			require.Equal(w, pods[0].Status.HostIP, p.Status.HostIP, "this test is about pods that share a node")
			w.eventually("sshd listens", func(context.Context) (bool, string) {
				log, err := w.kubectl("logs", p.Name)
				return err == nil && strings.Contains(log, "server listening"), log
			})
			logs += w.must("logs", p.Name)
		}
	}
	assert.Equal(w, 1, strings.Count(logs, "the port is taken on this node"), logs)
	w.eventually("an Event tells which pod has not got the port", func(context.Context) (bool, string) {
		told := ""
		for _, p := range pods {
			told += w.events(p.Name)
		}
		return strings.Count(told, "PortTaken: sshd cannot listen on ") == 1, told
	})
	o.names(nil)
	w.eventually("a launcher outside is told that it cannot be told which pod is meant", func(context.Context) (bool, string) {
		out, err := o.run(nil, "ssh", "-F", o.dir+"/ssh_config", "-p", "2422", "mpiuser@"+pods[0].Status.HostIP, "true")
		return err != nil && strings.Contains(out, "shares its HPC node, address and port with near-worker-0-"), out
	})
	require.NoError(w, w.env.Slurm.Exec(w.Context(), w.nodeAt(pods[0].Status.HostIP), slurm.ExecOptions{}, "touch", "/tmp/near-done-"+w.namespace))
	w.waitJobSet("near", jobset.JobSetCompleted)
	log := w.must("logs", w.pods(jobset.ReplicatedJobNameKey, "launcher")[0].Name)
	assert.Contains(w, log, "in near-worker-0-0\nin near-worker-0-1\n", "the gang's own ssh needs no port")
}

// nodeAt is the HPC node with an address.
func (w *world) nodeAt(address string) string {
	w.Helper()
	for _, node := range w.env.Slurm.Nodes() {
		if w.env.Slurm.Addr(node) == address {
			return node
		}
	}
	require.Fail(w, "no HPC node has the address "+address)
	return ""
}

func sshdInShell(w *world) {
	o := w.createKeys()
	js := makeJobSet("shell", w.sshd("worker", 1, resources("1", "0"),
		"bash", "-ec", "mkdir -p /tmp/run/sshd; /usr/sbin/sshd -p 2522; echo it is a daemon; trap 'exit 0' TERM; sleep 600 & wait"))
	w.create(js)
	pod := w.waitAll("shell", corev1.PodRunning, 1)[0]
	w.eventually("sshd is a daemon", func(context.Context) (bool, string) {
		log, err := w.kubectl("logs", pod.Name)
		return err == nil && strings.Contains(log, "it is a daemon"), log
	})
	o.names(map[string]string{"shell-worker-0-0.shell": pod.Status.PodIP})
	out, err := o.run(nil, "ssh", "-F", o.dir+"/ssh_config", "-p", "2522", "shell-worker-0-0.shell", "hostname; exit 3")
	assert.ErrorContains(w, err, "exit status 3")
	assert.Contains(w, out, "shell-worker-0-0\n")
	out, err = o.run(nil, "ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-p", "2522", "shell-worker-0-0.shell", "true")
	assert.Error(w, err)
	assert.Contains(w, out, "Permission denied (publickey)")
}

// kubeflowRuntime: sshd workers that get Ready, then a launcher on the HPC side as
// well, whose mpirun goes by the gang's own ssh.
func kubeflowRuntime(w *world) {
	program := filepath.Join(w.env.Slurm.SharedDir(), "sum-"+w.namespace)
	compile(w, program)
	w.train("own", fmt.Sprintf(`
runtimeRef: {name: deepspeed-distributed}
trainer:
  numNodes: 3
  numProcPerNode: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [mpirun, --mca, btl, "self,tcp", %s]
`, program))
	pods := w.waitAll("own", corev1.PodRunning, 3)
	assert.Len(w, w.jobs(pods...), 1, "one Slurm job for the whole gang")
	w.waitTrainJob("own", v1alpha1.TrainJobComplete)
	log := w.jobLogs("own", "launcher")
	for _, pod := range []string{"own-node-0-0", "own-node-0-1", "own-launcher-0-0"} {
		assert.Len(w, regexp.MustCompile(`rank \d of 6 on `+pod+` has the sum 15`).FindAllString(log, -1), 2, log)
	}
}

// hybrid: the workers of Kubeflow's own runtime are on the HPC side, their launcher
// is not. It would be a pod on an ordinary node, which this cluster has none of.
func hybrid(w *world) {
	w.train("hyb", `
runtimeRef: {name: deepspeed-distributed}
trainer:
  numNodes: 3
  numProcPerNode: 2
  # A whole HPC node each: the port 2222 is the node's, and other tests use it.
  resourcesPerNode: {requests: {cpu: "8", memory: 256Mi}}
  command: ["true"]
runtimePatches:
- manager: gangline.dev/test
  trainingRuntimeSpec:
    template:
      spec:
        replicatedJobs:
        - name: launcher
          template: {spec: {template: {spec: {nodeSelector: {gangline.dev/cluster: elsewhere}}}}}
`)
	var workers []corev1.Pod
	w.eventually("the workers are Ready, by their tcpSocket probe", func(context.Context) (bool, string) {
		workers = nil
		seen := ""
		for _, p := range w.jobSetPods("hyb") {
			seen += fmt.Sprintf("%s %s %q; ", p.Name, p.Status.Phase, p.Status.Message)
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					workers = append(workers, p)
				}
			}
		}
		return len(workers) == 2, seen
	})
	w.eventually("JobSet makes the launcher then", func(context.Context) (bool, string) {
		return len(w.pods(jobset.ReplicatedJobNameKey, "launcher")) == 1, ""
	})
	secret, hostfile := &corev1.Secret{}, &corev1.ConfigMap{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "hyb-mpi-ssh-auth"}, secret))
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "hyb-mpi-hostfile"}, hostfile))
	o := newOutside(w, secret.Data["ssh-privatekey"], secret.Data["ssh-publickey"])
	o.write("hostfile", []byte(hostfile.Data["hostfile"]), 0o444)
	addresses := map[string]string{"hyb-launcher-0-0.hyb": w.env.Slurm.OutsideAddr()}
	for _, p := range workers {
		addresses[p.Spec.Hostname+"."+p.Spec.Subdomain] = p.Status.PodIP
	}
	o.names(addresses)

	program := filepath.Join(w.env.Slurm.SharedDir(), "sum-"+w.namespace)
	compile(w, program)
	network := w.env.Slurm.OutsideAddr() + "/24"
	out, err := o.run([]string{
		"OMPI_MCA_orte_default_hostfile=" + o.dir + "/hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames=true", "OMPI_MCA_orte_set_default_slots=2",
		"OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10", "OMPI_MCA_plm_rsh_agent=ssh -F " + o.dir + "/ssh_config",
		// This machine has networks that the nodes do not reach.
		"OMPI_MCA_oob_tcp_if_include=" + network, "OMPI_MCA_btl_tcp_if_include=" + network, "OMPI_MCA_btl=self,vader,tcp",
	}, "mpirun", program)
	require.NoError(w, err, out)
	pods := map[string]int{}
	for _, m := range regexp.MustCompile(`rank \d of 6 on (\S+) has the sum 15`).FindAllStringSubmatch(out, -1) {
		pods[m[1]]++
	}
	outsideName, err := os.Hostname()
	require.NoError(w, err)
	assert.Equal(w, map[string]int{"hyb-node-0-0": 2, "hyb-node-0-1": 2, outsideName: 2}, pods, out)
}

// compile makes an MPI program that checks an allreduce.
func compile(w *world, program string) {
	w.Helper()
	source := `
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, size, length, sum;
  char host[MPI_MAX_PROCESSOR_NAME];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(host, &length);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d on %s has the sum %d\n", rank, size, host, sum);
  MPI_Finalize();
}`
	cmd := exec.CommandContext(w.Context(), "mpicc.openmpi", "-x", "c", "-o", program, "-")
	cmd.Stdin = strings.NewReader(source)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(w, cmd.Run(), out.String())
	w.Cleanup(func() { os.Remove(program) })
}
