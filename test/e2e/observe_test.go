package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/test/harness"
)

// TestObserve is about what gangline-node tells of itself: metrics, traces, Events, health
// and profiles, on a real Slurm.
func TestObserve(t *testing.T) {
	t.Parallel()
	collector := startCollector(t)
	var address string
	env := environmentWith(t, harness.Options{
		Name: "observe", WorkloadManager: "slurm", Nodes: 2,
		Env:       []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.url, "OTEL_BSP_SCHEDULE_DELAY=200"},
		Configure: func(c *provider.Config) { address = freeAddress(&world{T: t}); c.MetricsAddress = address },
	})
	url := "http://" + address
	for _, c := range []sideCase{
		{"a gang's life is in metrics, a trace and Events", func(w *world) { gangObserved(w, url, collector) }},
		{"metrics and profiles are for those who may have them", observers},
		{"an outage of Slurm makes it not ready, and kills nobody", func(w *world) { outageObserved(w, url) }},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(newWorld(t, env)) })
	}
}

func (w *world) get(url string) (int, string) {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, url, nil)
	require.NoError(w, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	require.NoError(w, err)
	return response.StatusCode, string(text)
}

// measured are a text of metrics by their names.
func (w *world) measured(text string) map[string]*dto.MetricFamily {
	w.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(w, err)
	return families
}

// value is that of a metric with these labels ("state", "running"), the number of
// observations for a histogram, and -1 for one that is not there.
func value(f *dto.MetricFamily, labels ...string) float64 {
	for _, m := range f.GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		same := true
		for i := 0; i+1 < len(labels); i += 2 {
			same = same && has[labels[i]] == labels[i+1]
		}
		if same {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return -1
}

// gangObserved runs a gang of two with an init container each, and a command in one of
// them.
func gangObserved(w *world, url string, c *collector) {
	done := filepath.Join(w.env.Slurm.SharedDir(), "observed")
	job := w.replicated("worker", "until [ -e "+done+" ]; do sleep 0.1; done", 2, resources("1", "0"))
	main := job.Template.Spec.Template.Spec.Containers[0]
	first := *main.DeepCopy()
	first.Name, first.Command, first.Args, first.Resources = "fetch", []string{"true"}, nil, corev1.ResourceRequirements{}
	job.Template.Spec.Template.Spec.InitContainers = []corev1.Container{first}
	w.create(makeJobSet("seen", job))
	pods := w.waitAll("seen", corev1.PodRunning, 2)
	w.must("exec", pods[0].Name, "-c", main.Name, "--", "true")
	w.eventually("the gang runs in the metrics", func(context.Context) (bool, string) {
		_, text := w.get(url + "/metrics")
		f := w.measured(text)
		return value(f["gangline_gangs"], "state", "running") == 1 && value(f["gangline_agents"], "state", "running") == 2 &&
			value(f["gangline_agent_versions"], "version", "dev") == 2, grepMetrics(text)
	})
	traceObserved(w, c, pods)

	require.NoError(w, os.WriteFile(done, nil, 0o644))
	var text string
	w.eventually("the gang is over in the metrics", func(context.Context) (bool, string) {
		_, text = w.get(url + "/metrics")
		f := w.measured(text)
		return value(f["gangline_allocations_ended_total"], "outcome", "Completed") == 1 && value(f["gangline_gangs"], "state", "running") == 0 &&
			value(f["gangline_gangs"], "state", "draining") == 0, grepMetrics(text)
	})
	metricsObserved(w, text)

	var events string
	w.eventually("each step is told", func(context.Context) (bool, string) {
		events = w.events(pods[0].Name) + w.events(pods[1].Name)
		for _, reason := range []string{"Submitted", "AllocationStarted", "Started", "Completed", "AllocationOver"} {
			if !strings.Contains(events, reason+": ") {
				return false, "without " + reason + ":\n" + events
			}
		}
		return true, ""
	})
	assert.Equal(w, 1, strings.Count(events, "AllocationOver: "), "it is one pod's to tell")
}

// grepMetrics leaves our own lines of a text of metrics, without the histograms' buckets.
func grepMetrics(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "gangline_") && !strings.Contains(line, "_bucket{") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// metricsObserved checks what the life of one gang of two has left.
func metricsObserved(w *world, text string) {
	f := w.measured(text)
	w.Log(grepMetrics(text))
	for _, want := range []struct {
		name   string
		labels []string
		least  float64
	}{
		{"gangline_build_info", []string{"program", "gangline-node"}, 1},
		{"gangline_gang_submit_duration_seconds", nil, 1},
		{"gangline_gang_queue_duration_seconds", nil, 1},
		{"gangline_pod_start_duration_seconds", nil, 2},
		{"gangline_pod_launch_duration_seconds", nil, 2},
		{"gangline_pod_status_latency_seconds", nil, 4},
		{"gangline_workload_manager_up", nil, 1},
		{"gangline_workload_manager_listed_jobs", nil, 1},
		{"gangline_workload_manager_call_duration_seconds", []string{"operation", "submit"}, 1},
		{"gangline_workload_manager_call_duration_seconds", []string{"operation", "list"}, 3},
		{"gangline_workload_manager_call_duration_seconds", []string{"operation", "inventory"}, 1},
		{"gangline_api_writes_total", []string{"resource", "pods/status", "verb", "patch", "code", "200"}, 6},
		{"gangline_api_writes_total", []string{"resource", "events", "verb", "create", "code", "201"}, 6},
		{"gangline_api_writes_total", []string{"resource", "leases"}, 1},
		{"gangline_api_write_duration_seconds", []string{"resource", "pods/status"}, 6},
		{"gangline_spool_call_duration_seconds", []string{"operation", "create"}, 1},
		{"gangline_spool_call_duration_seconds", []string{"operation", "write"}, 5},
		{"gangline_spool_call_duration_seconds", []string{"operation", "scan"}, 5},
		{"gangline_spool_bytes_total", []string{"direction", "written"}, 1000},
		{"gangline_spool_bytes_total", []string{"direction", "read"}, 1000},
		{"gangline_spool_scanned_files_total", nil, 10},
		{"gangline_ssh_connect_duration_seconds", []string{"result", "ok"}, 1},
		{"gangline_sites", []string{"state", "up"}, 1},
		{"gangline_hpc_nodes", []string{"state", "usable"}, 2},
	} {
		assert.GreaterOrEqual(w, value(f[want.name], want.labels...), want.least, "%s %v", want.name, want.labels)
	}
	for _, zero := range []string{"gangline_ssh_connections", "gangline_agent_restarts_total", "gangline_container_restarts_total"} {
		assert.Zero(w, value(f[zero]), zero)
	}
	var ours []*dto.MetricFamily
	for name, family := range f {
		if strings.HasPrefix(name, "gangline_") {
			ours = append(ours, family)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(ours).Lint()
	require.NoError(w, err)
	assert.Empty(w, problems)
	all, err := metrics.Catalogue()
	require.NoError(w, err)
	for _, m := range all { // those with labels appear with their first event
		assert.True(w, f[m.Name] != nil || len(m.Labels) > 0, m.Name)
	}
	for _, word := range []string{w.namespace, "seen", "hpcuser"} {
		assert.NotContains(w, grepMetrics(text), `"`+word, "what users name is no label")
	}
}

// observers are a stranger, who gets nothing, and those whose right it is.
func observers(w *world) {
	port := w.nodePort(w.env.Name)
	scraper, admin := w.allowed("scraper", "get", "nodes/metrics"), w.allowed("profiler", "get", "nodes/proxy")
	for _, c := range []struct {
		path, token string
		want        int
		text        string
	}{
		{"/metrics", "", http.StatusUnauthorized, ""},
		{"/metrics", admin, http.StatusForbidden, ""},
		{"/metrics", scraper, http.StatusOK, "gangline_build_info{"},
		{"/debug/pprof/heap", "", http.StatusUnauthorized, ""},
		{"/debug/pprof/heap", scraper, http.StatusForbidden, ""},
		{"/debug/pprof/heap", admin, http.StatusOK, ""},
		{"/debug/pprof/goroutine?debug=1", admin, http.StatusOK, "goroutine profile:"},
		{"/debug/pprof/profile?seconds=1", admin, http.StatusOK, ""},
		{"/debug/pprof/", admin, http.StatusOK, "goroutine"},
		{"/debug/pprof/nothing", admin, http.StatusNotFound, ""},
		{"/readyz", scraper, http.StatusForbidden, ""},
		{"/readyz", admin, http.StatusOK, "[+]" + w.env.Name + "/workload-manager ok"},
	} {
		status, text := port.ask(http.MethodGet, c.path, c.token)
		assert.Equal(w, c.want, status, c.path)
		assert.Contains(w, text, c.text, c.path)
	}
}

func outageObserved(w *world, url string) {
	code, text := w.get(url + "/readyz")
	require.Equal(w, http.StatusOK, code, text)
	require.NoError(w, w.env.Slurm.StopController(w.Context()))
	began := time.Now()
	w.eventually("readiness says that Slurm is away", func(context.Context) (bool, string) {
		code, text = w.get(url + "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "[-]"+w.env.Name+"/workload-manager: it does not answer"), text
	})
	w.Logf("after %s:\n%s", time.Since(began), text)
	assert.Contains(w, text, "[+]"+w.env.Name+"/spool ok", "the rest is")
	code, _ = w.get(url + "/healthz")
	assert.Equal(w, http.StatusOK, code, "it lives")
	_, text = w.get(url + "/metrics")
	f := w.measured(text)
	assert.Zero(w, value(f["gangline_workload_manager_up"]))
	assert.Positive(w, value(f["gangline_workload_manager_call_errors_total"], "operation", "list"))
	require.NoError(w, w.env.Slurm.StartController(w.Context()))
	w.eventually("it is ready again", func(context.Context) (bool, string) {
		code, text = w.get(url + "/readyz")
		return code == http.StatusOK, text
	})
	w.eventually("the node's Events tell of both", func(ctx context.Context) (bool, string) {
		list := &corev1.EventList{}
		require.NoError(w, w.client.List(ctx, list, client.InNamespace("default"), client.MatchingFields{"involvedObject.name": w.env.Name}))
		seen := ""
		for _, e := range list.Items {
			seen += e.Reason + "\n"
		}
		return strings.Contains(seen, "WorkloadManagerUnreachable") && strings.Contains(seen, "WorkloadManagerReachable"), seen
	})
}

// collector takes traces as an OpenTelemetry collector does, by OTLP over HTTP.
type collector struct {
	url string

	mu    sync.Mutex
	spans []received
}

// received is a span and whose it is.
type received struct {
	*tracev1.Span
	service string
}

func startCollector(t *testing.T) *collector {
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := &collectortrace.ExportTraceServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		c.take(request)
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(nil)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) take(request *collectortrace.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		service := attribute(resource.GetResource().GetAttributes(), "service.name")
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, received{s, service})
			}
		}
	}
}

func (c *collector) all() []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func attribute(all []*commonv1.KeyValue, key string) string {
	for _, a := range all {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// traceObserved waits for the trace of the gang's start, and looks whether it is whole.
func traceObserved(w *world, c *collector, pods []corev1.Pod) {
	want := map[string]int{
		"gangline-node start gang": 1, "gangline-node form gang": 1, "gangline-node submit": 1, "gangline-node queue": 1,
		"gangline-node start agents": 1, "gangline-agent start agent": 2, "gangline-node start pod": 2, "gangline-node write orders": 2,
		"gangline-agent take orders": 2, "gangline-agent start containers": 2, "gangline-agent init container": 2,
		"gangline-agent report": 2, "gangline-node write status": 2,
	}
	var spans []received
	w.eventually("the trace has arrived", func(context.Context) (bool, string) {
		spans = c.all()
		return len(spans) >= 21, fmt.Sprint(len(spans), " spans")
	})
	got, byID := map[string]int{}, map[string]received{}
	for _, s := range spans {
		got[s.service+" "+s.GetName()]++
		byID[string(s.GetSpanId())] = s
		assert.Equal(w, spans[0].GetTraceId(), s.GetTraceId(), "a start is one trace")
		assert.NotEqual(w, tracev1.Status_STATUS_CODE_ERROR, s.GetStatus().GetCode(), s.GetName())
	}
	assert.Equal(w, want, got)
	names, roots := map[string]bool{}, 0
	for _, s := range spans {
		parent, has := byID[string(s.GetParentSpanId())]
		if !has {
			roots++
			assert.Equal(w, "start gang", s.GetName())
			assert.Equal(w, "JobSet "+w.namespace+"/seen", attribute(s.GetAttributes(), "gangline.owner"))
			assert.Equal(w, w.env.Name, attribute(s.GetAttributes(), "k8s.node.name"))
		}
		if s.GetName() == "start pod" {
			names[attribute(s.GetAttributes(), "k8s.pod.name")] = true
			assert.NotEmpty(w, attribute(s.GetAttributes(), "host.name"))
		}
		w.Logf("%-16s %-18s in %-14q %8.3f s", s.service, s.GetName(), parent.GetName(),
			time.Duration(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()).Seconds())
		assert.LessOrEqual(w, s.GetStartTimeUnixNano(), s.GetEndTimeUnixNano(), s.GetName())
	}
	assert.Equal(w, 1, roots)
	assert.Equal(w, map[string]bool{pods[0].Name: true, pods[1].Name: true}, names)
}
