package provider

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/wlm"
)

func TestWhenPodsWereSeenAndTheirGangWasComplete(t *testing.T) {
	c := newScene(t)
	first := c.worker(0)
	first.pod.Finalizers = nil // it is new
	c.decide().note.start.look(c.s)
	assert.Equal(t, testNow, c.s.note.start.seen[first.uid()])
	assert.Zero(t, c.s.note.start.complete)

	second := c.worker(1) // accepted by an earlier process
	bound := testNow.Add(-time.Hour)
	second.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)}}
	c.after(time.Second).note.start.look(c.s)
	assert.Equal(t, bound, c.s.note.start.seen[second.uid()])
	assert.Equal(t, testNow.Add(time.Second), c.s.note.start.complete)
	c.after(time.Second).note.start.look(c.s)
	assert.Equal(t, testNow.Add(time.Second), c.s.note.start.complete, "a submission that is tried again began then")

	c.s.pods = c.s.pods[:1]
	c.s.note.keep(c.s.pods)
	c.after(time.Second).note.start.look(c.s)
	assert.Zero(t, c.s.note.start.complete, "it is incomplete again")
	assert.NotContains(t, c.s.note.start.seen, second.uid())
}

func TestTheTimeInTheQueueIsToldOnce(t *testing.T) {
	c := newScene(t)
	c.worker(0)
	c.allocated(wlm.PhaseRunning)
	start := &c.s.note.start
	tell := func() any {
		if d, known := start.queueTime(c.s); known {
			return d
		}
		return "nothing"
	}
	c.s.job.Submitted, c.s.job.Started = testNow, testNow.Add(3*time.Second)
	assert.Equal(t, "nothing", tell(), "its agents reported to an earlier process, which told it")
	start.reported = testNow
	c.s.job.Started = time.Time{}
	assert.Equal(t, "nothing", tell(), "the listing is older than the start")
	c.s.job.Started = testNow.Add(3 * time.Second)
	assert.Equal(t, 3*time.Second, tell())
	assert.Equal(t, "nothing", tell())
	start.over()
	start.reported = testNow
	assert.Equal(t, 3*time.Second, tell(), "the next allocation's")
}

// counts are the numbers of observations by metric.
func counts(t *testing.T, registry *prometheus.Registry) map[string]uint64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]uint64{}
	for _, f := range families {
		if f.GetType() == dto.MetricType_HISTOGRAM && f.GetMetric()[0].GetHistogram().GetSampleCount() > 0 {
			all[f.GetName()] = f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return all
}

func TestWhatAWrittenStatusTells(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.NewNode(registry, metrics.Sources{})
	require.NoError(t, err)
	r := &Reconciler{metrics: m, began: testNow}
	c := newScene(t)
	p := c.worker(0)
	c.allocated(wlm.PhaseRunning)
	c.started(p, 0)
	c.decide()
	c.s.note.start.look(c.s)
	require.NotNil(t, p.observed)
	phase := func(phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
	}
	c.s.toldAt = []time.Time{testNow.Add(-time.Second), {}, {}}
	r.wrote(c.s, p, phase(corev1.PodPending), phase(corev1.PodPending))
	assert.Empty(t, counts(t, registry), "what was reported before this process began says nothing")

	c.s.toldAt[0] = testNow.Add(time.Second)
	c.s.note.start.reported = testNow
	r.wrote(c.s, p, phase(corev1.PodPending), phase(corev1.PodRunning))
	want := map[string]uint64{
		"gangline_pod_status_latency_seconds": 1, "gangline_pod_start_duration_seconds": 1, "gangline_pod_launch_duration_seconds": 1,
	}
	assert.Equal(t, want, counts(t, registry))
	assert.Contains(t, c.s.note.start.running, p.uid())

	setTime(&c.s.note.start.told, 0, c.s.toldAt[0])
	r.wrote(c.s, p, phase(corev1.PodRunning), phase(corev1.PodRunning))
	assert.Equal(t, want, counts(t, registry), "a report is news once")
	p.observed = nil
	r.wrote(c.s, p, phase(corev1.PodPending), phase(corev1.PodFailed))
	assert.Equal(t, want, counts(t, registry), "what never ran was not started")
}
