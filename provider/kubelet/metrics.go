package kubelet

import (
	"fmt"
	"io"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"
)

// family collects the samples of one metric.
type family struct {
	name, help string
	kind       dto.MetricType
	samples    []*dto.Metric
}

func (f *family) add(at time.Time, value float64, labels ...string) {
	m := &dto.Metric{}
	for i := 0; i+1 < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	if !at.IsZero() {
		m.TimestampMs = ptr.To(at.UnixMilli())
	}
	if f.kind == dto.MetricType_COUNTER {
		m.Counter = &dto.Counter{Value: &value}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	f.samples = append(f.samples, m)
}

// resourceFamilies are kubelet's resource metrics (pkg/kubelet/metrics/collectors),
// and after them those of accelerators, by the names that cAdvisor gave them. Without
// a summary there is only the error.
//
// virtual-kubelet's test suite expects the pod's name as the second label.
func resourceFamilies(s *statsv1alpha1.Summary) []*family {
	counter := func(name, help string) *family { return &family{name: name, help: help, kind: dto.MetricType_COUNTER} }
	gauge := func(name, help string) *family { return &family{name: name, help: help, kind: dto.MetricType_GAUGE} }
	var (
		containerCPU    = counter("container_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the container in core-seconds")
		containerMemory = gauge("container_memory_working_set_bytes", "[STABLE] Current working set of the container in bytes")
		containerStart  = gauge("container_start_time_seconds", "[STABLE] Start time of the container since unix epoch in seconds")
		nodeCPU         = counter("node_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the node in core-seconds")
		nodeMemory      = gauge("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes")
		podCPU          = counter("pod_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds")
		podMemory       = gauge("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes")
		scrapeError     = gauge("resource_scrape_error", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise")
		oldScrapeError  = gauge("scrape_error", "[ALPHA] (Deprecated since 1.29.0) 1 if there was an error while getting container metrics, 0 otherwise")
		deviceDuty      = gauge("container_accelerator_duty_cycle", "Percent of time over the past sample period during which the accelerator was actively processing.")
		deviceTotal     = gauge("container_accelerator_memory_total_bytes", "Total accelerator memory.")
		deviceUsed      = gauge("container_accelerator_memory_used_bytes", "Total accelerator memory allocated.")
	)
	all := []*family{
		containerCPU, containerMemory, containerStart, nodeCPU, nodeMemory, podCPU, podMemory,
		scrapeError, oldScrapeError, deviceDuty, deviceTotal, deviceUsed,
	}
	failed := 0.0
	if s == nil {
		failed = 1
	}
	scrapeError.add(time.Time{}, failed)
	oldScrapeError.add(time.Time{}, failed)
	if s == nil {
		return all
	}
	seconds := func(c *statsv1alpha1.CPUStats) float64 {
		return float64(*c.UsageCoreNanoSeconds) / float64(time.Second)
	}
	bytes := func(m *statsv1alpha1.MemoryStats) float64 { return float64(*m.WorkingSetBytes) }
	nodeCPU.add(s.Node.CPU.Time.Time, seconds(s.Node.CPU))
	nodeMemory.add(s.Node.Memory.Time.Time, bytes(s.Node.Memory))
	for _, p := range s.Pods {
		if p.CPU == nil {
			continue // metrics-server drops a pod of which a container says 0
		}
		for _, c := range p.Containers {
			if c.CPU == nil {
				continue
			}
			labels := []string{"container", c.Name, "pod", p.PodRef.Name, "namespace", p.PodRef.Namespace}
			containerCPU.add(c.CPU.Time.Time, seconds(c.CPU), labels...)
			containerMemory.add(c.Memory.Time.Time, bytes(c.Memory), labels...)
			containerStart.add(time.Time{}, float64(c.StartTime.UnixNano())/float64(time.Second), labels...)
			for _, a := range c.Accelerators {
				labels := append(labels[:len(labels):len(labels)], "make", a.Make, "model", a.Model, "acc_id", a.ID)
				deviceDuty.add(c.CPU.Time.Time, float64(a.DutyCycle), labels...)
				deviceTotal.add(c.CPU.Time.Time, float64(a.MemoryTotal), labels...)
				deviceUsed.add(c.CPU.Time.Time, float64(a.MemoryUsed), labels...)
			}
		}
		labels := []string{"namespace", p.PodRef.Namespace, "pod", p.PodRef.Name}
		podCPU.add(p.CPU.Time.Time, seconds(p.CPU), labels...)
		podMemory.add(p.Memory.Time.Time, bytes(p.Memory), labels...)
	}
	return all
}

// writeFamilies writes those that have samples, in Prometheus' text format.
func writeFamilies(w io.Writer, families []*family) error {
	encoder := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if len(f.samples) == 0 {
			continue
		}
		if err := encoder.Encode(&dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind, Metric: f.samples}); err != nil {
			return fmt.Errorf("writing the metric %s: %w", f.name, err)
		}
	}
	return nil
}
