package manager

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// Metric is one of the controller's own metrics, as the documentation lists it. Those of
// controller-runtime come beside them.
type Metric struct {
	Name, Kind, Help string
	Labels           []string
}

// Metrics are the controller's own.
func Metrics() []Metric {
	return []Metric{
		{"gangline_build_info", "gauge", "Always 1; the labels are the version of gangline-controller and that of Go.", []string{"program", "version", "goversion"}},
		{"gangline_trainjobs", "gauge", "TrainJobs by state: active, suspended, complete, failed. Each replica tells of all.", []string{"state"}},
	}
}

// stateActive is the state of a TrainJob that no condition tells of.
const stateActive = "active"

// trainJobStates are the states that a condition tells of; who has none is active.
func trainJobStates() []struct{ state, condition string } {
	return []struct{ state, condition string }{
		{"complete", v1alpha1.TrainJobComplete}, {"failed", v1alpha1.TrainJobFailed}, {"suspended", v1alpha1.TrainJobSuspended},
	}
}

// collector makes the controller's metrics when somebody scrapes.
type collector struct {
	version         string
	reader          client.Reader
	build, trainJob *prometheus.Desc
}

func newCollector(version string, reader client.Reader) *collector {
	descs := map[string]*prometheus.Desc{}
	for _, m := range Metrics() {
		descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return &collector{version: version, reader: reader, build: descs["gangline_build_info"], trainJob: descs["gangline_trainjobs"]}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.build
	descs <- c.trainJob
}

// readTimeout bounds the wait for a cache that is being filled.
const readTimeout = 2 * time.Second

// Collect implements prometheus.Collector. TrainJobs that are not known yet are left out.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, "gangline-controller", c.version, runtime.Version())
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	list := &v1alpha1.TrainJobList{}
	if err := c.reader.List(ctx, list); err != nil {
		return
	}
	for state, count := range countTrainJobs(list.Items) {
		metrics <- prometheus.MustNewConstMetric(c.trainJob, prometheus.GaugeValue, float64(count), state)
	}
}

// countTrainJobs counts by state, those too that nothing is in.
func countTrainJobs(all []v1alpha1.TrainJob) map[string]int {
	count := map[string]int{stateActive: 0}
	for _, s := range trainJobStates() {
		count[s.state] = 0
	}
	for i := range all {
		state := stateActive
		for _, s := range trainJobStates() {
			if meta.IsStatusConditionTrue(all[i].Status.Conditions, s.condition) {
				state = s.state
				break
			}
		}
		count[state]++
	}
	return count
}

func (p *process) addMetrics(registerer prometheus.Registerer) error {
	if err := registerer.Register(newCollector(p.Version, p.mgr.GetClient())); err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	return nil
}

// profiles are those of Go's runtime, for a server that asks who calls: each path is a
// non-resource URL that the caller must be allowed to get.
func profiles() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}
