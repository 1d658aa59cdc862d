package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// TestDevices is about what the processes of a pod see of their node: its devices and
// the gang's names.
func TestDevices(t *testing.T) {
	t.Parallel()
	env := environment(t, "devices", "slurm", 2, nil)
	runAll(t, env, map[string]func(*world){
		"two pods on a node have devices of their own, in every process": ownDevices,
		"a pod without devices sees none":                                noDevices,
		"a pod chooses among its own devices":                            chosenDevices,
		"every form of a name, everywhere":                               everyName,
	})
}

// devices are the variables of the dev Slurm's GPUs, as one line.
const devices = `echo "cuda [$CUDA_VISIBLE_DEVICES] rocm [$ROCR_VISIBLE_DEVICES] opencl [$GPU_DEVICE_ORDINAL] intel [$ZE_AFFINITY_MASK]"`

// ownDevices has four one-node pods of two GPUs each: at least two share a node.
func ownDevices(w *world) {
	script := devices + `; sleep 600`
	w.create(makeJobSet("gpus", w.replicated("w", script, 4, resources("2", "2"))))
	pods := w.waitAll("gpus", corev1.PodRunning, 4)
	first := ""
	for _, p := range pods {
		if strings.HasPrefix(p.Name, "gpus-w-0-0-") {
			first = p.Name
		}
	}
	require.NotEmpty(w, first)
	seen, nodes := map[string]string{}, map[string]bool{}
	for _, p := range pods {
		host := strings.Join(strings.Split(p.Name, "-")[:4], "-")
		w.waitLog(p.Name, "cuda")
		container := strings.TrimSpace(w.must("logs", p.Name))
		assert.Regexp(w, `cuda \[\d,\d\]`, container)
		assert.Equal(w, container, strings.TrimSpace(w.must("exec", p.Name, "--", "sh", "-c", devices)), "kubectl exec")
		assert.Equal(w, container, strings.TrimSpace(w.must("exec", first, "--", "ssh", host, devices)), "ssh")
		cuda := container[strings.Index(container, "[")+1 : strings.Index(container, "]")]
		for device := range strings.SplitSeq(cuda, ",") {
			place := p.Status.HostIP + " " + device
			assert.Empty(w, seen[place], "%s and %s share %s", p.Name, seen[place], place)
			seen[place] = p.Name
		}
		nodes[p.Status.HostIP] = true
	}
	assert.Less(w, len(nodes), 4, "some share a node")

	// Two processes a pod: each sees both devices, and picks one by its local rank.
	out := w.must("exec", first, "--", "mpirun", "sh", "-c", `echo "$(hostname) $OMPI_COMM_WORLD_LOCAL_RANK [$CUDA_VISIBLE_DEVICES]"`)
	for _, p := range pods {
		host := strings.Join(strings.Split(p.Name, "-")[:4], "-")
		cuda := w.must("exec", p.Name, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
		for rank := range 2 {
			assert.Contains(w, out, fmt.Sprintf("%s %d [%s]", host, rank, strings.TrimSpace(cuda)))
		}
	}
	// What a client brings along is not the other pod's.
	for _, p := range pods {
		host := strings.Join(strings.Split(p.Name, "-")[:4], "-")
		out := w.must("exec", first, "--", "ssh", "-o", "SetEnv=CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7", host, devices)
		assert.NotContains(w, out, "0,1,2,3")
	}
}

func noDevices(w *world) {
	pod := w.makePod("none", devices, resources("1", "0"))
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CUDA_VISIBLE_DEVICES", Value: "0"}}
	w.create(pod)
	w.waitPhase("none", corev1.PodSucceeded)
	assert.Equal(w, "cuda [] rocm [] opencl [-1] intel [65535]\n", w.must("logs", "none"))
}

func chosenDevices(w *world) {
	pod := w.makePod("chosen", "sleep 600", resources("1", "3"))
	w.create(pod)
	w.waitPhase("chosen", corev1.PodRunning)
	all := strings.Split(strings.TrimSpace(w.must("exec", "chosen", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")), ",")
	require.Len(w, all, 3)
	w.must("delete", "pod", "chosen", "--wait=false")

	pod = w.makePod("second", "sleep 600", resources("1", "3"))
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CUDA_VISIBLE_DEVICES", Value: "1"}}
	w.create(pod)
	w.waitPhase("second", corev1.PodRunning)
	// What Slurm gave is still in the variable that the pod did not set.
	out := strings.Fields(w.must("exec", "second", "--", "sh", "-c", "echo $GPU_DEVICE_ORDINAL $CUDA_VISIBLE_DEVICES"))
	require.Len(w, out, 2)
	assert.Equal(w, strings.Split(out[0], ",")[1], out[1])
	w.must("delete", "pod", "second", "--wait=false")
}

// forms are all names of the gang's pods, by the podIP that they mean.
func forms(namespace, subdomain string, pods []corev1.Pod) map[string]string {
	names := map[string]string{}
	for _, p := range pods {
		host := strings.Join(strings.Split(p.Name, "-")[:4], "-")
		fqdn := host + "." + subdomain + "." + namespace
		for _, name := range []string{host, host + "." + subdomain, fqdn, fqdn + ".svc", fqdn + ".svc.cluster.local"} {
			names[name] = p.Status.PodIP
		}
	}
	return names
}

// lookUp prints the address of each name. It has no quotes, so that it can be put
// in some.
func lookUp(names map[string]string) string {
	var script strings.Builder
	for name := range names {
		fmt.Fprintf(&script, "echo %s $(getent ahostsv4 %s | head -n 1 | cut -d\\  -f1);", name, name)
	}
	return script.String()
}

func everyName(w *world) {
	w.create(makeJobSet("names", w.replicated("w", "getent hosts $(hostname); hostname -f; sleep 600", 3, resources("3", "0"))))
	pods := w.waitAll("names", corev1.PodRunning, 3)
	nodes := map[string]bool{}
	for _, p := range pods {
		nodes[p.Status.HostIP] = true
	}
	require.Len(w, nodes, 2, "two nodes, one with two pods")
	names := forms(w.namespace, "names", pods)
	require.Len(w, names, 15)
	for _, p := range pods {
		host := strings.Join(strings.Split(p.Name, "-")[:4], "-")
		fqdn := host + ".names." + w.namespace + ".svc.cluster.local"
		w.waitLog(p.Name, fqdn)
		log := w.must("logs", p.Name)
		assert.Contains(w, log, p.Status.PodIP, "its own name is its own address")
		assert.Contains(w, log, "\n"+fqdn+"\n", "and hostname -f is the whole of it")
		for how, argv := range map[string][]string{
			"exec":            {"sh", "-c", lookUp(names)},
			"ssh from itself": {"ssh", fqdn, lookUp(names)},
			"ssh from others": {"ssh", "names-w-0-0", "ssh", host + ".names", "'" + lookUp(names) + "'"},
		} {
			got := map[string]string{}
			for line := range strings.Lines(w.must(append([]string{"exec", p.Name, "--"}, argv...)...)) {
				name, address, _ := strings.Cut(strings.TrimSpace(line), " ")
				got[name] = address
			}
			assert.Equal(w, names, got, "%s in %s", how, host)
		}
	}
	// The container's own process saw the same file.
	w.create(makeJobSet("self", w.replicated("w", `for f in "" .self .self.`+w.namespace+` .self.`+w.namespace+`.svc .self.`+w.namespace+`.svc.cluster.local; do
getent ahostsv4 self-w-0-0$f >/dev/null && getent ahostsv4 self-w-0-1$f >/dev/null && echo found; done`, 2, resources("1", "0"))))
	w.waitJobSet("self", jobset.JobSetCompleted)
	assert.Equal(w, strings.Repeat("found\n", 10), w.jobLogs("self", "w"))
}
