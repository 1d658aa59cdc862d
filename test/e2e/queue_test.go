package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/wellknown"
)

// TestQueue is about gangs that cannot all run at once. Its tests follow one
// another: each needs the whole partition.
func TestQueue(t *testing.T) {
	t.Parallel()
	env := environment(t, "queue", "slurm", 2, nil)
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"a gang of which only a part fits waits whole", waitsWhole},
		{"two gangs that need everything run one after the other", oneAfterTheOther},
		{"a pod deleted in the queue takes its job along", deleteQueued},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

func waitsWhole(w *world) {
	w.create(w.makePod("half", "sleep 600", resources("5", "0")))
	half := w.waitPhase("half", corev1.PodRunning)

	w.create(makeJobSet("both", w.replicated("worker", "sleep 1", 2, resources("5", "0"))))
	waiting := w.waitAll("both", corev1.PodPending, 2)
	w.eventually("the pods say why they wait", func(context.Context) (bool, string) {
		waiting = w.jobSetPods("both")
		for _, p := range waiting {
			if p.Status.Reason != wellknown.ReasonQueued {
				return false, p.Status.Reason + " " + p.Status.Message
			}
		}
		return true, ""
	})
	for _, p := range waiting {
		w.waitPod(p.Name, "names Slurm's reason", func(p *corev1.Pod) bool { return containsAll(p.Status.Message, "PENDING", "Resources") })
		_, err := w.kubectl("logs", p.Name)
		assert.ErrorContains(w, err, "Slurm job")
		assert.Empty(w, p.Status.PodIP, "no part of the gang has started")
	}
	w.must("delete", "pod", "half")
	w.waitGone("half")
	w.waitJobGone(*half)
	w.waitJobSet("both", jobset.JobSetCompleted)
}

func oneAfterTheOther(w *world) {
	for _, name := range []string{"one", "two"} {
		w.create(makeJobSet(name, w.replicated("worker", "sleep 3", 2, resources("8", "0"))))
	}
	together := false
	w.eventually("both gangs complete", func(ctx context.Context) (bool, string) {
		runs, done := map[string]bool{}, 0
		for _, name := range []string{"one", "two"} {
			for _, p := range w.jobSetPods(name) {
				runs[name] = runs[name] || p.Status.Phase == corev1.PodRunning
			}
			out, err := w.kubectl("get", "jobset", name, "-o", "jsonpath={.status.terminalState}")
			if err == nil && out == string(jobset.JobSetCompleted) {
				done++
			}
		}
		together = together || (runs["one"] && runs["two"])
		return done == 2, fmt.Sprint(runs, done)
	})
	assert.False(w, together, "they never ran at the same time")
}

func deleteQueued(w *world) {
	w.create(w.makePod("wall", "sleep 600", resources("8", "0")), w.makePod("wall-2", "sleep 600", resources("8", "0")))
	w.waitPhase("wall", corev1.PodRunning)
	w.waitPhase("wall-2", corev1.PodRunning)
	w.create(w.makePod("queued", "true", resources("8", "0")))
	queued := w.waitPod("queued", "is in the queue", func(p *corev1.Pod) bool { return p.Status.Reason == wellknown.ReasonQueued })
	w.waitJobState(*queued, "PENDING")
	w.must("delete", "pod", "queued")
	w.waitGone("queued")
	w.waitJobState(*queued, "CANCELLED")
	w.must("delete", "pod", "wall", "wall-2")
}
