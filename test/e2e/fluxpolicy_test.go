package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/provider"
)

// TestFluxPolicy runs TrainJobs of the policy flux on the HPC side: with the Flux
// that is installed at the prefix $GANGLINE_E2E_FLUX or, without one, with a double
// of it.
func TestFluxPolicy(t *testing.T) {
	t.Parallel()
	for manager, tests := range map[string]map[string]func(*world, fluxInstallation){
		"slurm": {
			"words and GPUs arrive, with two pods on one node": fluxTasks,
			"one task with one core and one GPU":               fluxOne,
			"two TrainJobs on one node":                        fluxNeighbours,
			"the command's failure is that of all pods":        fluxFails,
			"the lead dies":                    fluxLeadDies,
			"a node without Flux is explained": fluxMissing,
		},
		"flux": {
			"one task with one core and one GPU":        fluxOne,
			"words and GPUs arrive":                     fluxTasks,
			"the command's failure is that of all pods": fluxFails,
		},
		"local": {
			"words and GPUs arrive":                     fluxTasks,
			"the command's failure is that of all pods": fluxFails,
		},
	} {
		t.Run(manager, func(t *testing.T) {
			t.Parallel()
			var shared string
			env := environment(t, "flux-"+manager, manager, 2, func(c *provider.Config) {
				shared = filepath.Dir(filepath.Dir(c.Spool))
				c.HostPaths = []string{shared}
			})
			flux := installFlux(t, shared)
			cases := map[string]func(*world){}
			for name, test := range tests {
				cases[name] = func(w *world) { test(w, flux) }
			}
			runAll(t, env, cases, flux.runtime)
		})
	}
}

// fluxInstallation is a Flux that all HPC nodes see.
type fluxInstallation struct {
	// at is where it is on the nodes, and where pods must have it.
	at, prefix string
	// shared is a directory that all nodes see, and pods may write to.
	shared string
}

func installFlux(t *testing.T, shared string) fluxInstallation {
	t.Helper()
	at := filepath.Join(shared, "flux")
	require.NoError(t, os.MkdirAll(at, 0o755))
	inst := fluxInstallation{at: at, prefix: os.Getenv("GANGLINE_E2E_FLUX"), shared: filepath.Join(shared, "meet")}
	require.NoError(t, os.Mkdir(inst.shared, 0o777))
	require.NoError(t, os.Chmod(inst.shared, 0o777)) // whatever the umask
	if inst.prefix != "" {
		out, err := exec.CommandContext(t.Context(), "cp", "-a", inst.prefix+"/.", at).CombinedOutput()
		require.NoError(t, err, string(out))
		return inst
	}
	t.Log("flux is a double: GANGLINE_E2E_FLUX names no prefix of a real one")
	inst.prefix = at
	double, err := os.ReadFile(filepath.Join("testdata", "flux.py"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(at, "bin"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(at, "bin", "flux"), double, 0o755)) //nolint:gosec // a program
	return inst
}

// runtime makes the HPC side's runtime one of the namespace, which finds Flux where it is.
func (f fluxInstallation) runtime(w *world) {
	w.Helper()
	ours := &v1alpha1.ClusterTrainingRuntime{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Name: "flux-distributed-hpc"}, ours))
	pod := &ours.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](10)
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "flux", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: f.at},
	}})
	c := &pod.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "flux", MountPath: f.prefix})
	c.Env = append(c.Env, corev1.EnvVar{Name: "PATH", Value: f.prefix + "/bin:/usr/bin:/bin"})
	w.create(&v1alpha1.TrainingRuntime{
		ObjectMeta: metav1.ObjectMeta{Name: ours.Name, Labels: ours.Labels}, Spec: ours.Spec,
	})
}

// fluxJob creates a TrainJob of two small pods with two tasks each, of which each runs
// a program of bash with these words.
func (w *world) fluxJob(name, more, script string, words ...string) {
	w.Helper()
	command := ""
	for _, word := range append([]string{"bash", "-c", script, "script"}, words...) {
		command += fmt.Sprintf("\n  - %q", word)
	}
	w.train(name, `
runtimeRef: {kind: TrainingRuntime, name: flux-distributed-hpc}
trainer:
  numNodes: 2
  numProcPerNode: 2
  `+more+`
  command:`+command)
}

const (
	fluxGPUs   = `resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}, limits: {nvidia.com/gpu: 2}}`
	fluxNoGPUs = `resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}`
)

func fluxTasks(w *world, _ fluxInstallation) {
	words := []string{"a b", "", `it's "so"`, "$HOME `id` $(id) ;", "one\ntwo", "-x", "--", "*", `\`, "ü"}
	w.fluxJob("tasks", fluxGPUs,
		`echo "rank $FLUX_TASK_RANK of $FLUX_JOB_SIZE on $(uname -n) $HOSTNAME $GANGLINE_RANK gpus $CUDA_VISIBLE_DEVICES words $(printf '%s\0' "$@" | base64 -w0)"`,
		words...)
	w.complete("tasks")
	pods := w.jobSetPods("tasks")
	require.Len(w, pods, 2)
	assert.Len(w, slurmJobs(pods), 1, "one allocation")

	log := w.must("logs", "-l", "batch.kubernetes.io/job-completion-index=0")
	said := w.eachRank(log, `rank (\d) of 4 on (\S+) (\S+) (\d) gpus (\S+) words (\S+)`, 4)
	gpus := map[string]string{}
	for _, s := range said {
		node := map[string]string{"0": "0", "1": "0", "2": "1", "3": "1"}[s[1]]
		host := "tasks-node-0-" + node
		assert.Equal(w, []string{host, host, node}, s[2:5], "each task has its pod's variables")
		gpus[host] = s[5]
		got, err := base64.StdEncoding.DecodeString(s[6])
		require.NoError(w, err)
		assert.Equal(w, words, strings.Split(strings.TrimSuffix(string(got), "\x00"), "\x00"))
	}
	own := map[string]bool{}
	for _, list := range gpus {
		assert.Regexp(w, `^\d,\d$`, list)
		for _, gpu := range strings.Split(list, ",") {
			own[gpu] = true
		}
	}
	if len(hpcNodes(pods)) == 1 {
		assert.Len(w, own, 4, "each pod has GPUs of its own: %v", gpus)
	}
}

func fluxOne(w *world, _ fluxInstallation) {
	w.train("one", `
runtimeRef: {kind: TrainingRuntime, name: flux-distributed-hpc}
trainer:
  numNodes: 1
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}, limits: {nvidia.com/gpu: 1}}
  command: [sh, -c, 'echo "rank $FLUX_TASK_RANK of $FLUX_JOB_SIZE gpus $CUDA_VISIBLE_DEVICES"']`)
	w.complete("one")
	assert.Regexp(w, `rank 0 of 1 gpus \d\n`, w.jobLogs("one", "node"))
}

// fluxNeighbours: each TrainJob ends only once the other one's tasks run as well.
func fluxNeighbours(w *world, flux fluxInstallation) {
	const script = `touch "$1-$FLUX_TASK_RANK"; until [ -e "$2-3" ]; do sleep 0.1; done; echo "met, lead at $GANGLINE_FLUX_LEAD"`
	one, two := filepath.Join(flux.shared, "one"), filepath.Join(flux.shared, "two")
	w.fluxJob("one", fluxNoGPUs, script, one, two)
	w.fluxJob("two", fluxNoGPUs, script, two, one)
	ports := map[string]bool{}
	for _, name := range []string{"one", "two"} {
		w.complete(name)
		met := regexp.MustCompile(`met, lead at `+name+`-node-0-0\.`+name+`:(\d+)`).FindAllStringSubmatch(w.jobLogs(name, "node"), -1)
		require.Len(w, met, 4)
		ports[met[0][1]] = true
	}
	assert.NotContains(w, ports, "8050", "what every TrainJob writes")
	if pods := append(w.jobSetPods("one"), w.jobSetPods("two")...); len(hpcNodes(pods)) == 1 {
		assert.Len(w, ports, 2, ports)
	}
}

// exitCodes are those with which the pods' containers have ended, by pod.
func (w *world) exitCodes(trainJob string) map[string]int32 {
	codes := map[string]int32{}
	for _, p := range w.jobSetPods(trainJob) {
		for _, c := range p.Status.ContainerStatuses {
			if end := c.State.Terminated; end != nil {
				codes[p.Labels["batch.kubernetes.io/job-completion-index"]] = end.ExitCode
			}
		}
	}
	return codes
}

func fluxFails(w *world, _ fluxInstallation) {
	w.fluxJob("fails", fluxNoGPUs, `echo "rank $FLUX_TASK_RANK fails"; exit $((FLUX_TASK_RANK == 3 ? 3 : 0))`)
	w.waitTrainJob("fails", v1alpha1.TrainJobFailed)
	assert.Equal(w, int32(3), w.exitCodes("fails")["0"], "the lead goes first")
	assert.Contains(w, w.must("logs", "-l", "batch.kubernetes.io/job-completion-index=0"), "rank 3 fails")
	pods := w.jobSetPods("fails")
	w.eventually("the followers have ended too", func(context.Context) (bool, string) {
		for _, p := range w.jobSetPods("fails") {
			if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending {
				return false, p.Name
			}
		}
		return true, ""
	})
	if w.env.Slurm != nil {
		w.waitJobGone(pods...)
	}
}

func fluxLeadDies(w *world, flux fluxInstallation) {
	started := filepath.Join(flux.shared, "started")
	w.fluxJob("dies", fluxNoGPUs, `touch "$1-$FLUX_TASK_RANK"; exec sleep infinity`, started)
	for rank := range 4 {
		w.eventually("all tasks run", func(context.Context) (bool, string) {
			_, err := os.Stat(fmt.Sprintf("%s-%d", started, rank))
			return err == nil, fmt.Sprint(rank)
		})
	}
	pods := w.waitAll("dies", corev1.PodRunning, 2)
	lead := ""
	for _, p := range pods {
		if strings.HasPrefix(p.Name, "dies-node-0-0-") {
			lead = p.Name
		}
	}
	hosts := strings.Fields(w.must("exec", lead, "--", "flux", "exec", "--noinput", "uname", "-n"))
	assert.ElementsMatch(w, []string{"dies-node-0-0", "dies-node-0-1"}, hosts, "who looks in finds the instance")
	_, _ = w.kubectl("exec", lead, "--", "bash", "-c", `kill -KILL "$(cat /mnt/flux/pid)"`) // which may end with the container
	w.waitTrainJob("dies", v1alpha1.TrainJobFailed)
	w.waitJobGone(pods...)
	assert.Equal(w, int32(137), w.exitCodes("dies")["0"])
}

func fluxMissing(w *world, _ fluxInstallation) {
	w.fluxJob("missing", fluxNoGPUs+"\n  env: [{name: PATH, value: \"/usr/bin:/bin\"}]", "true")
	w.waitTrainJob("missing", v1alpha1.TrainJobFailed)
	for _, p := range w.jobSetPods("missing") {
		for _, c := range p.Status.ContainerStatuses {
			if end := c.State.Terminated; end != nil && end.ExitCode == 127 {
				assert.Contains(w, end.Message, "There is no flux on the HPC node's PATH (")
				assert.Contains(w, end.Message, "must install flux-core")
				return
			}
		}
	}
	assert.Fail(w, "no pod tells that Flux is missing")
}
