package e2e

import (
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

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestFrameworks runs real programs: what is in Debian of what people train and
// simulate with, as the examples have it.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	env := environment(t, "frameworks", "slurm", 4, nil)
	for name, test := range map[string]func(*world){
		"PyTorch trains on four nodes":              torchOnFourNodes,
		"PyTorch trains in two pods of one node":    torchOnOneNode,
		"PyTorch goes on after a restart":           torchRestarted,
		"mpi4py by SSH":                             func(w *world) { mpi4py(w, "ssh") },
		"mpi4py by srun":                            func(w *world) { mpi4py(w, "srun") },
		"LAMMPS melts a crystal, by SSH":            func(w *world) { lammps(w, "ssh") },
		"LAMMPS melts a crystal, by srun":           func(w *world) { lammps(w, "srun") },
		"XGBoost's collective, with its own tracker": xgboostCollective,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, env))
		})
	}
}

// trainExample creates a TrainJob of the examples on this group's cluster, with
// annotations ("key: value") and with old texts replaced by new ones.
func (w *world) trainExample(file string, annotations []string, oldNew ...string) {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(root(), "examples", "trainjobs", file))
	require.NoError(w, err)
	all := strings.Join(append(annotations, wellknown.Cluster+": "+w.env.Name), ", ")
	manifest := string(data)
	for i := 0; i < len(oldNew); i += 2 {
		require.Contains(w, manifest, oldNew[i], file)
	}
	manifest = strings.NewReplacer(oldNew...).Replace(manifest)
	w.apply(strings.Replace(manifest, "kind: TrainJob\nmetadata:", "kind: TrainJob\nmetadata:\n  annotations: {"+all+"}", 1))
}

// ranks finds what each rank said of itself: one match for each of so many, with the rank
// as the first group.
func (w *world) ranks(log, pattern string, count int) [][]string {
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
	said := w.ranks(log, fmt.Sprintf(`rank (\d) of %d %sweights (\S+) losses (.*)`, ranks, note), ranks)
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

// hosts are the nodes that pods run on.
func hosts(pods []corev1.Pod) map[string]bool {
	all := map[string]bool{}
	for _, p := range pods {
		all[p.Status.HostIP] = true
	}
	return all
}

func torchOnFourNodes(w *world) {
	w.trainExample("torch-ddp-hpc.yaml", nil)
	w.waitTrainJob("ddp", v1alpha1.TrainJobComplete)
	pods := w.jobSetPods("ddp")
	assert.Len(w, slurmJobs(pods), 1, "one allocation")
	assert.Len(w, hosts(pods), 4, "four HPC nodes")
	w.trained(w.jobLogs("ddp", "node"), 8, 10, "")
}

func torchOnOneNode(w *world) {
	w.trainExample("torch-ddp-hpc.yaml", nil, "numNodes: 4", "numNodes: 2", `cpu: "5"`, `cpu: "4"`)
	w.waitTrainJob("ddp", v1alpha1.TrainJobComplete)
	pods := w.jobSetPods("ddp")
	assert.Len(w, pods, 2)
	assert.Len(w, hosts(pods), 1, "one HPC node")
	w.trained(w.jobLogs("ddp", "node"), 4, 10, "")
}

// torchRestarted: the second attempt runs in the first one's allocation, on the
// same port, and goes on from its checkpoint.
func torchRestarted(w *world) {
	dir := filepath.Join(w.env.Slurm.SharedDir(), w.namespace)
	require.NoError(w, os.Mkdir(dir, 0o777))
	require.NoError(w, os.Chmod(dir, 0o777))
	program, err := os.ReadFile(filepath.Join("testdata", "resume.py"))
	require.NoError(w, err)
	script, checkpoint := filepath.Join(dir, "resume.py"), filepath.Join(dir, "checkpoint")
	require.NoError(w, os.WriteFile(script, program, 0o644))
	w.apply(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: again}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
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
`)
	w.train("again", fmt.Sprintf(`
runtimeRef: {kind: TrainingRuntime, name: again}
trainer:
  numNodes: 2
  numProcPerNode: 2
  resourcesPerNode: {requests: {cpu: "5", memory: 2Gi}}
  command: [torchrun, %s, %s]
`, script, checkpoint))
	first := w.waitAll("again", corev1.PodRunning, 2)
	require.NoError(w, os.WriteFile(checkpoint+".fail", nil, 0o644))
	w.waitTrainJob("again", v1alpha1.TrainJobComplete)
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
	w.trainExample("mpi4py-hpc.yaml", []string{wellknown.AnnotationMPILaunch + ": " + mode})
	w.waitTrainJob("mpi4py", v1alpha1.TrainJobComplete)
	hosts := map[string]int{}
	for _, r := range w.ranks(w.jobLogs("mpi4py", "launcher"), `rank (\d) of 4 on (\S+): the sum is 6`, 4) {
		hosts[r[2]]++
	}
	assert.Equal(w, map[string]int{"mpi4py-node-0-0": 2, "mpi4py-launcher-0-0": 2}, hosts)
}

func lammps(w *world, mode string) {
	w.trainExample("lammps-hpc.yaml", []string{wellknown.AnnotationMPILaunch + ": " + mode})
	w.waitTrainJob("melt", v1alpha1.TrainJobComplete)
	log := w.jobLogs("melt", "launcher")
	assert.Contains(w, log, "Created 4000 atoms")
	assert.Contains(w, log, "with 4 MPI tasks x 1 OpenMP threads")
	// The energy per atom at the start, as LAMMPS's own logs of this example have it.
	assert.Regexp(w, `\n\s+0\s+3\s+-6\.773368\d*\s+0\s+-2\.27443\d*`, log)
	assert.Regexp(w, `\n\s+100\s+1\.6\d+`, log, "the crystal has melted")
}

func xgboostCollective(w *world) {
	w.trainExample("xgboost-distributed-hpc.yaml", nil, `cpu: "2"`, `cpu: "5"`)
	w.waitTrainJob("xgboost-sum-hpc", v1alpha1.TrainJobComplete)
	log := w.jobLogs("xgboost-sum-hpc", "node")
	w.ranks(log, `rank (\d) of 2 sum \[2\.\]`, 2)
}
