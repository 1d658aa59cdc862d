package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestFrameworks runs real programs: what is in Debian of what people train and
// simulate with, as the examples have it.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	env := environment(t, "frameworks", "slurm", 4, nil)
	runAll(t, env, map[string]func(*world){
		"PyTorch trains on four nodes":           func(w *world) { torchTrains(w, 4, "5", 4) },
		"PyTorch trains in two pods of one node": func(w *world) { torchTrains(w, 2, "4", 1) },
		"PyTorch goes on after a restart":        torchRestarted,
		"mpi4py by SSH":                          func(w *world) { mpi4py(w, "ssh") },
		"mpi4py by srun":                         func(w *world) { mpi4py(w, "srun") },
		"LAMMPS melts a crystal, by SSH":         func(w *world) { lammps(w, "ssh") },
		"LAMMPS melts a crystal, by srun":        func(w *world) { lammps(w, "srun") },
		"XGBoost's collective":                   xgboostCollective,
		"XGBoost trains on three nodes":          xgboostTrains,
	})
}

// trainExample creates a TrainJob of the examples on this group's cluster, with
// annotations ("key: value") and with old texts replaced by new ones.
func (w *world) trainExample(file string, annotations []string, oldNew ...string) {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(root(), "examples", "trainjobs", file))
	require.NoError(w, err)
	all := append(annotations, wellknown.Cluster+": "+w.env.Name)
	manifest := string(data)
	for i := 0; i < len(oldNew); i += 2 {
		require.Contains(w, manifest, oldNew[i], file)
	}
	manifest = strings.NewReplacer(oldNew...).Replace(manifest)
	const own = "\n  annotations:\n"
	if !strings.Contains(manifest, own) {
		manifest = strings.Replace(manifest, "\nmetadata:\n", "\nmetadata:"+own, 1)
	}
	w.apply(strings.Replace(manifest, own, own+"    "+strings.Join(all, "\n    ")+"\n", 1))
}

// complete waits until a TrainJob has ended, which must be well.
func (w *world) complete(name string) {
	w.Helper()
	if logs := w.ended(name); logs != "" {
		require.Fail(w, "the TrainJob has failed", logs)
	}
}

// completeMPI is complete for programs of Open MPI: a TrainJob whose ranks crash as those
// of launchScript do is made anew.
func (w *world) completeMPI(name string, create func()) {
	w.Helper()
	for try := 1; ; try++ {
		create()
		logs := w.ended(name)
		if logs == "" {
			return
		}
		if try == 3 || !strings.Contains(logs, "Segmentation fault") {
			require.Fail(w, "the TrainJob has failed", logs)
		}
		w.must("delete", "trainjob", name, "--cascade=foreground")
		w.eventually("its pods are gone", func(context.Context) (bool, string) {
			pods := w.jobSetPods(name)
			return len(pods) == 0, fmt.Sprint(len(pods))
		})
	}
}

// ended waits until a TrainJob has ended, and returns what its pods say if it has failed.
func (w *world) ended(name string) string {
	w.Helper()
	var failed bool
	w.eventually("TrainJob "+name+" has ended", func(context.Context) (bool, string) {
		conditions := w.trainJob(name).Status.Conditions
		failed = meta.IsStatusConditionTrue(conditions, v1alpha1.TrainJobFailed)
		return failed || meta.IsStatusConditionTrue(conditions, v1alpha1.TrainJobComplete), fmt.Sprintf("%+v", conditions)
	})
	if !failed {
		return ""
	}
	logs := "failed:\n"
	for _, p := range w.jobSetPods(name) {
		log, err := w.kubectl("logs", p.Name) // a worker may be on its way out
		logs += fmt.Sprintf("--- %s on %s\n%s%v\n", p.Name, p.Status.HostIP, log, err)
	}
	return logs
}

// share puts a program of testdata where all HPC nodes find it, in a directory of
// the test's own that pods may write to.
func (w *world) share(program string) string {
	w.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", program))
	require.NoError(w, err)
	dir := filepath.Join(w.env.Slurm.SharedDir(), w.namespace)
	require.NoError(w, os.Mkdir(dir, 0o777))
	require.NoError(w, os.Chmod(dir, 0o777)) // whatever the umask
	path := filepath.Join(dir, program)
	require.NoError(w, os.WriteFile(path, data, 0o644))
	return path
}

// eachRank finds what each rank said of itself: one match for each of so many, with the rank
// as the first group.
func (w *world) eachRank(log, pattern string, count int) [][]string {
	w.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(log, -1)
	seen := map[string]bool{}
	for _, f := range found {
		seen[f[1]] = true
	}
	require.Len(w, found, count, log)
	require.Len(w, seen, count, log)
	return found
}

// trained checks that all ranks have trained one model: their losses and weights
// agree, and the losses fall.
func (w *world) trained(log string, ranks, epochs int, note string) {
	w.Helper()
	said := w.eachRank(log, fmt.Sprintf(`rank (\d) of %d %sweights (\S+) losses (.*)`, ranks, note), ranks)
	for _, r := range said {
		assert.Equal(w, said[0][2:], r[2:], "one model")
	}
	losses := strings.Fields(said[0][3])
	require.Len(w, losses, epochs)
	last := 1e9
	for _, l := range losses {
		loss, err := strconv.ParseFloat(l, 64)
		require.NoError(w, err)
		assert.Less(w, loss, last, losses)
		last = loss
	}
}

// hpcNodes are the nodes that pods run on.
func hpcNodes(pods []corev1.Pod) map[string]bool {
	all := map[string]bool{}
	for _, p := range pods {
		all[p.Status.HostIP] = true
	}
	return all
}

// debianTorch is what Debian 12's torchrun needs to start at all: its PyTorch 1.13
// trips over Python 3.11 unless output is redirected (there, a Flag's members
// leave out zero). Errors are; output stays as it is.
const debianTorch = `env: [{name: PET_REDIRECTS, value: "2"}, {name: PET_TEE, value: "2"}]`

// torchTrains runs the example with pods of so many CPUs, which need so many nodes.
func torchTrains(w *world, pods int, cpus string, nodes int) {
	w.Helper()
	w.trainExample("torch-ddp-hpc.yaml", nil,
		"numNodes: 4", fmt.Sprintf("numNodes: %d", pods), `cpu: "5"`, fmt.Sprintf("cpu: %q", cpus))
	w.complete("ddp")
	all := w.jobSetPods("ddp")
	assert.Len(w, all, pods)
	assert.Len(w, slurmJobs(all), 1, "one allocation")
	assert.Len(w, hpcNodes(all), nodes, "HPC nodes")
	w.trained(w.jobLogs("ddp", "node"), 2*pods, 10, "")
}

// restarting makes a runtime whose JobSets begin anew once, whatever the failure.
func (w *world) restarting(name, framework string) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: %s}
spec:
  mlPolicy: {numNodes: 1, %s: {}}
  template:
    spec:
      failurePolicy: {maxRestarts: 1}
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            backoffLimit: 0
            template:
              spec:
                restartPolicy: Never
                containers: [{name: node, image: host}]
`, name, framework))
}

// torchRestarted: the second attempt runs in the first one's allocation, at
// another port, and goes on from its checkpoint.
func torchRestarted(w *world) {
	script := w.share("resume.py")
	checkpoint := filepath.Join(filepath.Dir(script), "checkpoint")
	w.restarting("again", "torch")
	w.train("again", fmt.Sprintf(`
runtimeRef: {kind: TrainingRuntime, name: again}
trainer:
  numNodes: 2
  numProcPerNode: 2
  resourcesPerNode: {requests: {cpu: "5", memory: 2Gi}}
  %s
  command: [torchrun, %s, %s]
`, debianTorch, script, checkpoint))
	first := w.waitAll("again", corev1.PodRunning, 2)
	require.NoError(w, os.WriteFile(checkpoint+".fail", nil, 0o644))
	w.complete("again")
	second := w.jobSetPods("again")
	for _, p := range second {
		for _, f := range first {
			assert.NotEqual(w, f.UID, p.UID, "a pod of the second attempt")
		}
	}
	assert.Equal(w, slurmJobs(first), slurmJobs(second), "one allocation for both attempts")
	w.trained(w.jobLogs("again", "node"), 4, 10, "from epoch 5 ")
}

func mpi4py(w *world, mode string) {
	w.completeMPI("mpi4py", func() {
		w.trainExample("mpi4py-hpc.yaml", []string{wellknown.AnnotationMPILaunch + ": " + mode})
	})
	hosts := map[string]int{}
	for _, r := range w.eachRank(w.jobLogs("mpi4py", "launcher"), `rank (\d) of 4 on (\S+): the sum is 6`, 4) {
		hosts[r[2]]++
	}
	assert.Equal(w, map[string]int{"mpi4py-node-0-0": 2, "mpi4py-launcher-0-0": 2}, hosts)
}

func lammps(w *world, mode string) {
	w.completeMPI("melt", func() {
		w.trainExample("lammps-hpc.yaml", []string{wellknown.AnnotationMPILaunch + ": " + mode})
	})
	log := w.jobLogs("melt", "launcher")
	assert.Contains(w, log, "Created 4000 atoms")
	assert.Contains(w, log, "with 4 MPI tasks x 1 OpenMP threads")
	// The energies at the start are those of LAMMPS's own logs of its melt example.
	assert.Regexp(w, `\n\s+0\s+3\s+-6\.773368\d*\s+0\s+-2\.27449\d*`, log)
	assert.Regexp(w, `\n\s+100\s+1\.6\d+`, log, "half of the heat has gone into the melting")
}

func xgboostCollective(w *world) {
	w.trainExample("xgboost-distributed-hpc.yaml", nil)
	w.complete("xgboost-sum-hpc")
	w.eachRank(w.jobLogs("xgboost-sum-hpc", "node"), `rank (\d) of 2 sum \[2\.\]`, 2)
}

func xgboostTrains(w *world) {
	w.train("boost", fmt.Sprintf(`
runtimeRef: {name: xgboost-distributed-hpc}
trainer:
  numNodes: 3
  resourcesPerNode: {requests: {cpu: "5", memory: 1Gi}}
  command: [python3, %s]
`, w.share("boost.py")))
	w.complete("boost")
	w.trained(w.jobLogs("boost", "node"), 3, 10, `task \d `)
}
