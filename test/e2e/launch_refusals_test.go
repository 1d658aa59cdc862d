package e2e

import (
	"context"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/wellknown"
)

func missingPod(w *world) {
	for _, mode := range []string{"ssh", "srun"} {
		t := newWorld(w.T, w.env)
		worker := t.replicated("worker", `test "$JOB_COMPLETION_INDEX" != 1 || exit 0; sleep 600`, 3, resources("1", "0"))
		launcher := t.replicated("launcher", launchScript(
			"sleep 3; mpirun hostname", "mpirun --host gang-worker-0-0,gang-worker-0-2 hostname", "mpirun -n 1 --host localhost hostname",
		), 1, resources("1", "0"))
		js := makeJobSet("gang", worker, launcher)
		js.Annotations = map[string]string{wellknown.AnnotationMPILaunch: mode}
		js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
		t.create(js)
		_, log := t.launchLog()
		parts := sections(log)
		require.Len(t, parts, 3, log)
		assert.Contains(t, parts[0], "1 of the 4 pods that are to take ranks cannot, so nothing was started:\n  gang-worker-0-1: its pod has ended", mode)
		assert.Contains(t, parts[0], "exit code 1", mode)
		assert.Contains(t, parts[1], "gang-worker-0-2\n", "%s: others by name", mode)
		assert.Contains(t, parts[1], "exit code 0", mode)
		assert.Contains(t, parts[2], "gang-launcher-0-0\nexit code 0", "%s: alone", mode)
	}
}

func latePod(w *world) {
	worker := w.replicated("worker", "sleep 600", 2, resources("1", "0"))
	late := w.replicated("late", "sleep 600", 1, resources("1", "0"))
	late.Template.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
	}
	launcher := w.replicated("launcher", launchScript("GANGLINE_LAUNCH_PATIENCE=2s mpirun hostname", "mpirun hostname"), 1, resources("1", "0"))
	js := makeJobSet("gang", worker, late, launcher)
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	w.create(js)
	w.eventually("the launcher misses the late pod", func(context.Context) (bool, string) {
		for _, p := range w.pods(jobset.ReplicatedJobNameKey, "launcher") {
			log, err := w.kubectl("logs", p.Name)
			return err == nil && strings.Contains(log, "gang-late-0-0: its pod has not started within"), log
		}
		return false, ""
	})
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"A": "b"}})
	_, log := w.launchLog()
	parts := sections(log)
	require.Len(w, parts, 2, log)
	assert.Contains(w, parts[0], "exit code 1")
	assert.Contains(w, parts[1], "gang-late-0-0\n", log)
	assert.Contains(w, parts[1], "exit code 0", log)
}

func badLaunchMode(w *world) {
	pod := w.makePod("odd", "true", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationMPILaunch: "rsh"}
	w.create(pod)
	got := w.waitPhase("odd", corev1.PodFailed)
	assert.Equal(w, wellknown.ReasonBadAnnotation, got.Status.Reason)
	assert.Contains(w, got.Status.Message, `gangline.dev/mpi-launch is "rsh": write "ssh" or "srun"`)
}

func refusedOptions(w *world) {
	pod := w.makePod("alone", launchScript(
		"mpirun --frobnicate hostname", "mpirun --rankfile x hostname", "mpirun -n 1 --host elsewhere hostname", "mpirun -n 9 hostname",
		"mpirun --version", "mpirun -n 1 --mca plm_rsh_agent x --allow-run-as-root --bind-to core hostname",
		"mpirun -n 1 echo one : -n 1 -x COLOUR sh -c 'echo two $COLOUR $SLURM_PROCID'",
	), resources("2", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationMPILaunch: "srun", wellknown.AnnotationMPISlots: "2"}
	w.create(pod)
	w.waitPhase("alone", corev1.PodSucceeded)
	log := w.must("logs", "alone")
	parts := sections(log)
	require.Len(w, parts, 7, log)
	for i, says := range []string{"the option --frobnicate is not known", "the option --rankfile is not possible", "elsewhere: not of this gang", "9 ranks of hostname do not fit on the 2 free slots of alone"} {
		assert.Contains(w, parts[i], says)
		assert.Contains(w, parts[i], "exit code 1")
	}
	assert.Contains(w, parts[4], "(Open MPI)")
	assert.Contains(w, parts[5], "\nalone\nexit code 0")
	assert.Contains(w, parts[6], "one\n")
	assert.Contains(w, parts[6], "two blue 1\n")
}

func wrongProtocol(w *world, programs map[string]string) {
	hidden := "sh -c 'exec " + programs["mpich"] + "'"
	w.launchGang("srun", launchScript(
		"timeout 60 mpirun "+programs["mpich"],
		"timeout 60 mpirun "+hidden,
		"GANGLINE_MPI_PMI=pmi2 timeout 60 mpirun "+hidden,
		"GANGLINE_MPI_PMI=pmi2 timeout 60 mpirun sh -c 'exec "+programs["openmpi"]+"'",
	))
	_, log := w.launchLog()
	parts := sections(log)
	require.Len(w, parts, 4, log)
	assert.Contains(w, parts[0], "is linked with MPICH, which speaks pmi2, and the ranks would be started for pmix")
	assert.Contains(w, parts[1], "speaks PMI (as MPICH and Intel MPI do), and the ranks were started for pmix")
	for _, part := range []string{parts[0], parts[1], parts[3]} {
		assert.NotContains(w, part, "rank 0 of")
		assert.NotContains(w, part, "exit code 0")
	}
	assert.Len(w, rankLine.FindAllString(parts[2], -1), 8, log)
	assert.Contains(w, parts[2], "rank 7 of 8 sum 28")
}

// wrongLauncher: where the MPI's own launcher starts the ranks they would be so many
// worlds of one rank, too.
func wrongLauncher(w *world, programs map[string]string) {
	w.launchGang("ssh", launchScript(
		"timeout 60 mpirun.openmpi "+programs["mpich"],
		"timeout 60 mpirun.openmpi sh -c 'exec "+programs["mpich"]+"'",
		"timeout 60 mpiexec.mpich "+programs["openmpi"],
		"timeout 60 mpiexec.mpich env A=b "+programs["openmpi"],
		"timeout 60 mpirun.openmpi --host localhost sh -c 'exec "+programs["mpich"]+"'",
		"timeout 60 mpirun.openmpi sh -c 'exec "+programs["openmpi"]+"'",
		"timeout 20 mpirun.openmpi --host nosuch hostname",
		"timeout 20 mpiexec.hydra -hosts nosuch hostname",
	))
	_, log := w.launchLog()
	parts := sections(log)
	require.Len(w, parts, 8, log)
	for i, part := range parts {
		if i == 5 {
			assert.Len(w, rankLine.FindAllString(part, -1), 8, "the right one: %s", part)
			continue
		}
		assert.NotContains(w, part, "rank 0 of")
		assert.NotContains(w, part, "exit code 0")
		assert.NotContains(w, part, "exit code 124")
	}
	assert.Contains(w, parts[0], "is linked with MPICH, which speaks pmi2, and the ranks would be started for pmix")
	assert.Contains(w, parts[2], "is linked with Open MPI, which speaks pmix, and the ranks would be started for pmi2")
	for _, part := range parts[6:] {
		assert.Contains(w, part, "nosuch: not of this gang")
	}
}

// meantLauncher: Debian's mpirun is Open MPI's, and the runtime is MPICH's.
func meantLauncher(w *world) {
	w.train("meant", `
runtimeRef: {name: mpich-distributed-hpc}
trainer:
  numNodes: 2
  numProcPerNode: 2
  resourcesPerNode: {requests: {cpu: "1", memory: 256Mi}}
  command: [sh, -ec]
  args:
  - |
    for launcher in mpirun mpiexec; do
      $launcher sh -c 'echo rank $PMI_RANK of $PMI_SIZE in $(hostname)'
    done
`)
	w.complete("meant")
	log := w.jobLogs("meant", "launcher")
	for _, line := range []string{"rank 0 of 4 in meant-node-0-0", "rank 1 of 4 in meant-node-0-0", "rank 2 of 4 in meant-launcher-0-0", "rank 3 of 4 in meant-launcher-0-0"} {
		assert.Equal(w, 2, strings.Count(log, line+"\n"), log)
	}
}
