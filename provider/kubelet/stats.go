package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gangline/gangline/provider/spool"
)

// Usages tells what the node's pods use.
type Usages interface {
	// Usages returns a value for each pod that has not ended. It takes a few
	// seconds at most, whatever the spool's filesystem does.
	Usages(ctx context.Context) ([]PodUsage, error)
}

// PodUsage is what a pod's agent has measured.
type PodUsage struct {
	Pod *corev1.Pod
	// Usage has no time if there is no measurement, or only an old one.
	Usage spool.Usage
	// DeviceContainer is the container whose devices the pod's are.
	DeviceContainer string
}

// stats serves what the node and its pods use.
type stats struct {
	node    string
	usages  Usages
	started time.Time

	mu      sync.Mutex
	counter counter
}

func newStats(node string, usages Usages) *stats {
	return &stats{node: node, usages: usages, started: time.Now()}
}

// ServeSummary serves kubelet's /stats/summary.
func (s *stats) ServeSummary(w http.ResponseWriter, r *http.Request) {
	summary, err := s.summary(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	data, err := json.MarshalIndent(summary, "", " ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}

// ServeResource serves kubelet's /metrics/resource, for metrics-server and
// Prometheus. A failure is a metric too.
func (s *stats) ServeResource(w http.ResponseWriter, r *http.Request) {
	summary, err := s.summary(r.Context())
	if err != nil {
		logr.FromContextOrDiscard(r.Context()).Error(err, "measuring the pods failed")
	}
	var text bytes.Buffer
	if err := writeFamilies(&text, resourceFamilies(summary)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text.Bytes())
}

// summary is nil if there is an error.
func (s *stats) summary(ctx context.Context) (*statsv1alpha1.Summary, error) {
	pods, err := s.usages.Usages(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking what the pods use: %w", err)
	}
	now := time.Now()
	own := ownUsage(now, s.started)
	s.mu.Lock()
	used, at := s.counter.count(pods, own, now)
	s.mu.Unlock()
	return summarize(s.node, s.started, pods, own, used, at), nil
}

// counter adds up the processor time of all runs there ever were, so that the
// node's does not go back when pods end.
type counter struct {
	runs map[containerKey]runUse
	own  uint64
	used uint64
	at   time.Time
}

type containerKey struct {
	pod       types.UID
	container string
}

// runUse is the use of a container's newest run. No earlier one is heard of again.
type runUse struct {
	run  int
	used uint64
}

// count takes the newest measurements, and returns the sum and the time it is for:
// that of the newest measurement, as the rate that is made of two sums would else
// depend on when they are asked for.
func (c *counter) count(pods []PodUsage, own statsv1alpha1.ContainerStats, now time.Time) (uint64, time.Time) {
	runs, at := map[containerKey]runUse{}, time.Time{}
	here := map[types.UID]bool{}
	for _, p := range pods {
		here[p.Pod.UID] = true
		if p.Usage.Time.After(at) {
			at = p.Usage.Time
		}
		for _, u := range p.Usage.Containers {
			key := containerKey{p.Pod.UID, u.Name}
			before := c.runs[key]
			if !hasContainer(p.Pod, u.Name) || u.Run < before.run {
				continue // an agent would not write this
			}
			if u.Run > before.run {
				before = runUse{run: u.Run}
			}
			runs[key] = runUse{u.Run, max(u.CPU, before.used)}
			c.used += runs[key].used - before.used
		}
	}
	for key, used := range c.runs {
		if _, ok := runs[key]; !ok && here[key.pod] {
			runs[key] = used // it may be heard of again
		}
	}
	c.runs = runs
	c.used += *own.CPU.UsageCoreNanoSeconds - c.own
	c.own = *own.CPU.UsageCoreNanoSeconds
	if at.IsZero() || at.After(now) {
		at = now
	}
	if at.After(c.at) {
		c.at = at
	}
	return c.used, c.at
}

// summarize makes kubelet's summary of what is known.
func summarize(
	node string, started time.Time, pods []PodUsage, own statsv1alpha1.ContainerStats, used uint64, at time.Time,
) *statsv1alpha1.Summary {
	s := &statsv1alpha1.Summary{
		Node: statsv1alpha1.NodeStats{NodeName: node, StartTime: metav1.NewTime(started), SystemContainers: []statsv1alpha1.ContainerStats{own}},
		Pods: []statsv1alpha1.PodStats{},
	}
	rate, working, anonymous := *own.CPU.UsageNanoCores, *own.Memory.WorkingSetBytes, *own.Memory.RSSBytes
	for _, p := range pods {
		stats := podStats(p)
		s.Pods = append(s.Pods, stats)
		if stats.CPU != nil {
			rate, working, anonymous = rate+*stats.CPU.UsageNanoCores, working+*stats.Memory.WorkingSetBytes, anonymous+*stats.Memory.RSSBytes
		}
	}
	s.Node.CPU, s.Node.Memory = cpuStats(at, used, rate), memoryStats(at, working, anonymous)
	return s
}

func podStats(p PodUsage) statsv1alpha1.PodStats {
	s := statsv1alpha1.PodStats{
		PodRef:     statsv1alpha1.PodReference{Name: p.Pod.Name, Namespace: p.Pod.Namespace, UID: string(p.Pod.UID)},
		Containers: []statsv1alpha1.ContainerStats{},
	}
	if p.Pod.Status.StartTime != nil {
		s.StartTime = *p.Pod.Status.StartTime
	}
	var used, rate, working, anonymous, processes uint64
	measured := map[string]bool{}
	for _, u := range p.Usage.Containers {
		if measured[u.Name] || !hasContainer(p.Pod, u.Name) || u.CPU == 0 || u.WorkingSet == 0 {
			continue // an agent would not write this
		}
		measured[u.Name] = true
		c := statsv1alpha1.ContainerStats{
			Name: u.Name, StartTime: metav1.NewTime(u.Started),
			CPU: cpuStats(p.Usage.Time, u.CPU, u.CPURate), Memory: memoryStats(p.Usage.Time, u.WorkingSet, u.RSS),
		}
		if u.Name == p.DeviceContainer {
			c.Accelerators = accelerators(p.Usage.Devices)
		}
		s.Containers = append(s.Containers, c)
		used, rate, working, anonymous = used+u.CPU, rate+u.CPURate, working+u.WorkingSet, anonymous+u.RSS
		processes += uint64(max(0, u.Processes))
	}
	if len(measured) > 0 {
		s.CPU, s.Memory = cpuStats(p.Usage.Time, used, rate), memoryStats(p.Usage.Time, working, anonymous)
		s.ProcessStats = &statsv1alpha1.ProcessStats{ProcessCount: &processes}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Pod.Status.InitContainerStatuses, p.Pod.Status.ContainerStatuses, p.Pod.Status.EphemeralContainerStatuses} {
		for _, c := range list {
			if c.State.Running != nil && !measured[c.Name] { // it has just started
				s.Containers = append(s.Containers, statsv1alpha1.ContainerStats{Name: c.Name, StartTime: c.State.Running.StartedAt})
			}
		}
	}
	return s
}

func accelerators(devices []spool.DeviceUsage) []statsv1alpha1.AcceleratorStats {
	var list []statsv1alpha1.AcceleratorStats
	valid := func(s string) string { return strings.ToValidUTF8(s, "?") } // or nobody could read the others
	for _, d := range devices {
		list = append(list, statsv1alpha1.AcceleratorStats{
			Make: valid(d.Make), Model: valid(d.Model), ID: valid(d.ID),
			MemoryTotal: d.MemoryTotal, MemoryUsed: d.MemoryUsed, DutyCycle: d.DutyCycle,
		})
	}
	return list
}

func cpuStats(at time.Time, used, rate uint64) *statsv1alpha1.CPUStats {
	return &statsv1alpha1.CPUStats{Time: metav1.NewTime(at), UsageCoreNanoSeconds: &used, UsageNanoCores: &rate}
}

func memoryStats(at time.Time, working, anonymous uint64) *statsv1alpha1.MemoryStats {
	return &statsv1alpha1.MemoryStats{Time: metav1.NewTime(at), UsageBytes: &working, WorkingSetBytes: &working, RSSBytes: &anonymous}
}

// ownUsage is what this process uses: the node is never without any use.
func ownUsage(now, started time.Time) statsv1alpha1.ContainerStats {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		usage = syscall.Rusage{}
	}
	used := uint64(max(1, usage.Utime.Nano()+usage.Stime.Nano())) //nolint:gosec // positive
	rate := uint64(float64(used) / max(1, now.Sub(started).Seconds()))
	resident := ownResident()
	return statsv1alpha1.ContainerStats{
		Name: statsv1alpha1.SystemContainerKubelet, StartTime: metav1.NewTime(started),
		CPU: cpuStats(now, used, rate), Memory: memoryStats(now, resident, resident),
	}
}

// ownResident is this process's resident memory in bytes.
func ownResident() uint64 {
	page := uint64(os.Getpagesize()) //nolint:gosec // positive
	line, err := os.ReadFile("/proc/self/statm")
	if f := strings.Fields(string(line)); err == nil && len(f) > 1 {
		if pages, err := strconv.ParseUint(f[1], 10, 64); err == nil && pages > 0 {
			return pages * page
		}
	}
	return page
}
