package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/test/harness"
)

// TestREST walks the path once over slurmrestd. GANGLINE_TEST_SLURM=rest sends all other
// groups that way too.
func TestREST(t *testing.T) {
	t.Parallel()
	env := environmentWith(t, harness.Options{Name: "rest", WorkloadManager: "slurm", Nodes: 2, REST: true})
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"a gang over slurmrestd runs, is heard and ends", gangOverREST},
		{"a gang over slurmrestd is deleted while slurmrestd is away", deleteWithoutREST},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

func gangOverREST(w *world) {
	w.create(makeJobSet("walk", w.replicated("worker", "echo rank $JOB_COMPLETION_INDEX of the gang; sleep 2", 2, resources("5", "1"))))
	pods := w.waitAll("walk", corev1.PodRunning, 2)
	require.Len(w, w.jobs(pods...), 1, "one job for the gang")
	for _, p := range pods {
		assert.Contains(w, w.must("logs", p.Name), "of the gang")
	}
	w.waitJobSet("walk", jobset.JobSetCompleted)
	w.waitJobGone(pods...)
}

func deleteWithoutREST(w *world) {
	w.create(w.makePod("alone", "sleep 600", resources("1", "0")))
	pod := w.waitPhase("alone", corev1.PodRunning)
	require.NoError(w, w.env.Slurm.StopREST(w.Context()))
	w.must("delete", "pod", "alone", "--wait=false")
	// The agents are asked through the spool; only Slurm's word ends the pod.
	w.waitJobGone(*pod)
	require.NoError(w, w.env.Slurm.StartREST(w.Context()))
	w.waitGone("alone")
}
