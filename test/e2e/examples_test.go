package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

// TestExamples applies examples as they are, which no other test does.
func TestExamples(t *testing.T) {
	t.Parallel()
	env := environment(t, "examples", "slurm", 4, nil)
	runAll(t, env, map[string]func(*world){
		"Open MPI": func(w *world) {
			exampleRanks(w, "mpi-distributed-hpc.yaml", "hello-mpi", "launcher", `rank \d of 8 in pod hello-mpi-`, 8)
		},
		"MPICH": func(w *world) {
			exampleRanks(w, "mpich-distributed-hpc.yaml", "hello-mpich", "launcher", `rank \d of 8 in pod hello-mpich-`, 8)
		},
		"PyTorch": func(w *world) {
			exampleRanks(w, "torch-distributed-hpc.yaml", "all-reduce-hpc", "node", `rank \d of 4: the sum is 4`, 4)
		},
		"an ordinary Job": exampleJob,
	})
}

// exampleRanks runs a TrainJob, of which each rank says something in the logs of a
// replicated job.
func exampleRanks(w *world, file, name, job, says string, ranks int) {
	w.trainExample(file, nil)
	w.complete(name)
	log := w.jobLogs(name, job)
	assert.Len(w, regexp.MustCompile(says).FindAllString(log, -1), ranks, log)
}

func exampleJob(w *world) {
	manifest, err := os.ReadFile(filepath.Join(root(), "examples", "job.yaml"))
	require.NoError(w, err)
	// The other groups of tests have virtual nodes too.
	w.apply(strings.Replace(string(manifest), "{type: virtual-kubelet}", "{"+wellknown.Cluster+": "+w.env.Name+"}", 1))
	var pods []corev1.Pod
	w.eventually("the Job has a pod", func(context.Context) (bool, string) {
		pods = w.pods("batch.kubernetes.io/job-name", "hello")
		return len(pods) == 1, ""
	})
	w.waitPhase(pods[0].Name, corev1.PodSucceeded)
	assert.Regexp(w, `Hello from hello-\S+ on \S+ with GPU \d`, w.must("logs", pods[0].Name))
}

// TestEachExampleIsRun: every example for HPC nodes is in a test, or says which
// program it needs that Debian does not have.
func TestEachExampleIsRun(t *testing.T) {
	needs := map[string]string{
		"deepspeed-distributed-hpc.yaml": "DeepSpeed",
		"flux-distributed-hpc.yaml":      "Flux",
		"jax-distributed-hpc.yaml":       "JAX",
		"torchtune-llama3.2-1b-hpc.yaml": "torchtune",
	}
	sources, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range sources {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(source)
	}
	var examples []string
	for _, pattern := range []string{"*.yaml", "trainjobs/*-hpc.yaml"} {
		files, err := filepath.Glob(filepath.Join(root(), "examples", pattern))
		require.NoError(t, err)
		examples = append(examples, files...)
	}
	require.NotEmpty(t, examples)
	for _, path := range examples {
		file := filepath.Base(path)
		if needs[file] == "" {
			assert.Contains(t, tests.String(), `"`+file+`"`, "no test runs it")
			continue
		}
		manifest, err := os.ReadFile(path)
		require.NoError(t, err)
		head, _, _ := strings.Cut(string(manifest), "apiVersion")
		assert.Regexp(t, "needs?.*"+needs[file]+"|"+needs[file]+".*need", head, file)
	}
}
