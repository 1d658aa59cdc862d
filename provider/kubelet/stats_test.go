package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/golden"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// usageOf is a pod of these containers, of which the measured ones have used so
// many seconds.
func usageOf(name string, at time.Time, seconds map[string]int, containers ...string) PodUsage {
	p := PodUsage{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}}
	p.Usage = spool.Usage{PodUID: "uid-" + name, Time: at}
	for _, c := range containers {
		p.Pod.Spec.Containers = append(p.Pod.Spec.Containers, corev1.Container{Name: c})
		p.Pod.Status.ContainerStatuses = append(p.Pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}},
		})
		if used, ok := seconds[c]; ok {
			p.Usage.Containers = append(p.Usage.Containers, spool.ContainerUsage{
				Name: c, Started: noon, CPU: uint64(used) * 1e9, CPURate: 5e8, WorkingSet: 100 << 20, RSS: 50 << 20, Processes: 2,
			})
		}
	}
	return p
}

func ownFor(seconds uint64) statsv1alpha1.ContainerStats {
	return statsv1alpha1.ContainerStats{Name: "kubelet", CPU: cpuStats(noon, seconds*1e9, 1e7), Memory: memoryStats(noon, 30<<20, 30<<20)}
}

func TestResourceMetrics(t *testing.T) {
	gpu := usageOf("train", noon.Add(10*time.Second), map[string]int{"main": 30, "helper": 1}, "main", "helper")
	gpu.DeviceContainer = "main"
	gpu.Usage.Devices = []spool.DeviceUsage{{Make: "nvidia", Model: "NVIDIA A100", ID: "GPU-1", MemoryTotal: 40 << 30, MemoryUsed: 1 << 30, DutyCycle: 35}}
	pods := []PodUsage{
		gpu,
		usageOf("fresh", time.Time{}, nil, "main"),
		usageOf("half", noon.Add(12*time.Second), map[string]int{"a": 4}, "a", "b"),
	}
	summary := summarize("hpc", noon, pods, ownFor(7), 42e9, noon.Add(12*time.Second))
	for name, summary := range map[string]*statsv1alpha1.Summary{"resource.txt": summary, "resource-failed.txt": nil} {
		var got bytes.Buffer
		require.NoError(t, writeFamilies(&got, resourceFamilies(summary)))
		golden.Equal(t, filepath.Join("testdata", name), got.String())
		parser := expfmt.NewTextParser(model.UTF8Validation)
		_, err := parser.TextToMetricFamilies(&got)
		require.NoError(t, err)
	}
}

func TestSummary(t *testing.T) {
	half := usageOf("half", noon.Add(12*time.Second), map[string]int{"a": 4, "stranger": 9}, "a", "b")
	half.Usage.Containers = append(half.Usage.Containers,
		spool.ContainerUsage{Name: "stranger", CPU: 1, WorkingSet: 1}, spool.ContainerUsage{Name: "b", CPU: 0, WorkingSet: 1})
	s := summarize("hpc", noon, []PodUsage{half, usageOf("fresh", time.Time{}, nil, "main")}, ownFor(7), 42e9, noon)
	assert.Equal(t, "hpc", s.Node.NodeName)
	assert.EqualValues(t, 42e9, *s.Node.CPU.UsageCoreNanoSeconds)
	assert.EqualValues(t, 130<<20, *s.Node.Memory.WorkingSetBytes, "the pods' and the node's own")
	assert.Equal(t, "kubelet", s.Node.SystemContainers[0].Name)
	require.Len(t, s.Pods, 2)
	assert.Equal(t, statsv1alpha1.PodReference{Name: "half", Namespace: "default", UID: "uid-half"}, s.Pods[0].PodRef)
	require.Len(t, s.Pods[0].Containers, 2, "those of the pod, measured or not")
	assert.EqualValues(t, 4e9, *s.Pods[0].Containers[0].CPU.UsageCoreNanoSeconds)
	assert.Nil(t, s.Pods[0].Containers[1].CPU)
	assert.EqualValues(t, 2, *s.Pods[0].ProcessStats.ProcessCount)
	assert.Nil(t, s.Pods[1].CPU)
	assert.Len(t, s.Pods[1].Containers, 1)
}

func TestTheNodesProcessorTimeNeverGoesBack(t *testing.T) {
	var c counter
	type look struct {
		pods []PodUsage
		own  uint64
		want uint64
		at   time.Duration
	}
	at := func(d time.Duration) time.Time { return noon.Add(d * time.Second) }
	for i, l := range []look{
		{[]PodUsage{usageOf("a", at(1), map[string]int{"m": 10}, "m"), usageOf("b", at(3), map[string]int{"m": 5}, "m")}, 1, 16, 3},
		{[]PodUsage{usageOf("a", at(16), map[string]int{"m": 20}, "m"), usageOf("b", at(18), map[string]int{"m": 6}, "m")}, 1, 27, 18},
		{[]PodUsage{usageOf("a", at(31), map[string]int{"m": 25}, "m"), usageOf("b", time.Time{}, nil, "m")}, 2, 33, 31},               // b is not heard of
		{[]PodUsage{usageOf("a", at(31), map[string]int{"m": 25}, "m"), usageOf("b", at(33), map[string]int{"m": 8}, "m")}, 2, 35, 33}, // and again
		{[]PodUsage{usageOf("b", at(48), map[string]int{"m": 8}, "m")}, 2, 35, 48},                                                     // a has ended
		{nil, 3, 36, 100}, // and b
	} {
		used, when := c.count(l.pods, ownFor(l.own), at(100))
		assert.Equal(t, l.want, used/1e9, "look %d", i)
		assert.Equal(t, at(l.at), when, "look %d", i)
	}
	assert.Empty(t, c.runs)
}

func TestAContainersRunsAllCount(t *testing.T) {
	var c counter
	use := func(run, seconds int) uint64 {
		p := usageOf("a", noon, map[string]int{"m": seconds}, "m")
		p.Usage.Containers[0].Run = run
		used, _ := c.count([]PodUsage{p}, ownFor(0), noon)
		return used / 1e9
	}
	assert.EqualValues(t, 10, use(0, 10))
	assert.EqualValues(t, 13, use(1, 3))
	assert.EqualValues(t, 13, use(0, 11), "an old file")
	assert.EqualValues(t, 15, use(1, 5))
}

// The job's user writes the measurements, and may write others each time.
func TestWhatIsCountedIsBounded(t *testing.T) {
	var c counter
	for i := range 100 {
		p := usageOf("a", noon, map[string]int{"m": 1}, "m")
		p.Usage.Containers[0].Run = i
		p.Usage.Containers = append(p.Usage.Containers, spool.ContainerUsage{Name: fmt.Sprint("x", i), CPU: 1e9})
		c.count([]PodUsage{p}, ownFor(0), noon)
	}
	assert.Len(t, c.runs, 1)
}

type fakeUsages struct {
	pods []PodUsage
	err  error
}

func (f fakeUsages) Usages(context.Context) ([]PodUsage, error) { return f.pods, f.err }

func TestUsageIsServed(t *testing.T) {
	s := newStats("hpc", fakeUsages{pods: []PodUsage{usageOf("a", time.Now(), map[string]int{"m": 10}, "m")}})
	answer := httptest.NewRecorder()
	s.ServeSummary(answer, httptest.NewRequest("GET", "/stats/summary", nil))
	var summary statsv1alpha1.Summary
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &summary))
	assert.Len(t, summary.Pods, 1)
	assert.NotZero(t, *summary.Node.Memory.WorkingSetBytes)
	answer = httptest.NewRecorder()
	s.ServeResource(answer, httptest.NewRequest("GET", "/metrics/resource", nil))
	assert.Contains(t, answer.Body.String(), "\nresource_scrape_error 0\n")
	assert.True(t, strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain; version=0.0.4"))

	s = newStats("hpc", fakeUsages{err: errors.New("no")})
	answer = httptest.NewRecorder()
	s.ServeResource(answer, httptest.NewRequest("GET", "/metrics/resource", nil))
	assert.Contains(t, answer.Body.String(), "\nresource_scrape_error 1\n")
	answer = httptest.NewRecorder()
	s.ServeSummary(answer, httptest.NewRequest("GET", "/stats/summary", nil))
	assert.Equal(t, 500, answer.Code)
}
