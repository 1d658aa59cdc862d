package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

func newMetrics(t *testing.T, s Sources) (*Process, *Node, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	p, err := NewProcess(registry, "v1")
	require.NoError(t, err)
	n, err := NewNode(registry, s)
	require.NoError(t, err)
	return p, n, registry
}

// compare compares metrics with what they should be, without their help and types.
func compare(t *testing.T, registry *prometheus.Registry, want string, names ...string) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var got strings.Builder
	for _, f := range families {
		for _, name := range names {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
				value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				fmt.Fprintf(&got, "%s{%s} %v\n", name, strings.Join(labels, ","), value)
			}
		}
	}
	assert.Equal(t, strings.TrimSpace(want), strings.TrimSpace(got.String()))
}

func TestEveryMetricIsAsPrometheusWantsIt(t *testing.T) {
	count := func() map[string]int { return map[string]int{} }
	p, n, registry := newMetrics(t, Sources{Sites: count, HPCNodes: count, Agents: count})
	n.Submitted(time.Second)
	_, _ = p.Manager(&fakeManager{}).List(t.Context())
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestNoLabelHasWithoutEnd(t *testing.T) {
	all, err := Catalogue()
	require.NoError(t, err)
	known := map[string]bool{
		"operation": true, "reason": true, "state": true, "kind": true, "outcome": true, "direction": true, "result": true,
		"resource": true, "verb": true, "code": true, "program": true, "version": true, "goversion": true,
	}
	for _, m := range all {
		assert.True(t, strings.HasPrefix(m.Name, "gangline_"), m.Name)
		assert.NotEmpty(t, m.Help, m.Name)
		for _, label := range m.Labels {
			assert.True(t, known[label], "%s: say here how many values %s has, and that no user chooses them", m.Name, label)
		}
	}
}

func TestAGangIsInOneStageAtATime(t *testing.T) {
	_, n, registry := newMetrics(t, Sources{})
	n.Gang("a", StageForming, 4)
	n.Gang("b", StageForming, 2)
	n.Gang("a", StageQueued, 4)
	n.Gang("a", StageQueued, 4)
	n.Gang("b", StageOver, 0)
	n.Gang("b", StageOver, 0)
	compare(t, registry, `
gangline_gang_slots{state=draining} 0
gangline_gang_slots{state=forming} 0
gangline_gang_slots{state=queued} 4
gangline_gang_slots{state=running} 0
gangline_gang_slots{state=starting} 0
gangline_gang_slots{state=submitting} 0
gangline_gangs{state=draining} 0
gangline_gangs{state=forming} 0
gangline_gangs{state=queued} 1
gangline_gangs{state=running} 0
gangline_gangs{state=starting} 0
gangline_gangs{state=submitting} 0`, "gangline_gang_slots", "gangline_gangs")
}

func TestDurationsAreNotNegative(t *testing.T) {
	_, n, registry := newMetrics(t, Sources{})
	n.Reported(-time.Hour) // by two clocks
	n.Reported(20 * time.Millisecond)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "gangline_pod_status_latency_seconds" {
			assert.InDelta(t, .02, f.GetMetric()[0].GetHistogram().GetSampleSum(), 1e-9)
			return
		}
	}
	assert.Fail(t, "the metric is not there")
}

func TestNobodyCountsWithoutMetrics(t *testing.T) {
	var n *Node
	n.Gang("a", StageQueued, 1)
	n.Submitted(1)
	n.Queued(1)
	n.Started(1)
	n.Launched(1)
	n.Reported(1)
	n.Ended("Completed")
	n.AgentRestarted()
	n.ContainersRestarted(1)
	var p *Process
	assert.Equal(t, site.Local{}, p.Site(site.Local{}))
	m := &fakeManager{}
	assert.Same(t, m, p.Manager(m))
	assert.Equal(t, http.DefaultTransport, p.API(http.DefaultTransport))
}

func TestWhatIsAskedForWhenSomebodyScrapes(t *testing.T) {
	var sites map[string]int
	_, _, registry := newMetrics(t, Sources{Sites: func() map[string]int { return sites }})
	compare(t, registry, "", "gangline_sites")
	sites = map[string]int{SiteUp: 2, SiteDown: 1, "unheard-of": 7}
	compare(t, registry, `
gangline_sites{state=down} 1
gangline_sites{state=unread} 0
gangline_sites{state=up} 2`, "gangline_sites")
}

// fakeManager answers with its error.
type fakeManager struct {
	wlm.Manager
	err error
}

func (m *fakeManager) List(context.Context) ([]wlm.Job, error)                   { return make([]wlm.Job, 3), m.err }
func (m *fakeManager) Submit(context.Context, translate.Request) (string, error) { return "7", m.err }
func (m *fakeManager) Cancel(context.Context, string, string) error              { return m.err }

func TestCallsOfTheWorkloadManagerAreCounted(t *testing.T) {
	p, _, registry := newMetrics(t, Sources{})
	m := &fakeManager{}
	counted := p.Manager(m)
	_, err := counted.List(t.Context())
	require.NoError(t, err)
	compare(t, registry, "gangline_workload_manager_listed_jobs{} 3\ngangline_workload_manager_up{} 1",
		"gangline_workload_manager_listed_jobs", "gangline_workload_manager_up")
	for _, err := range []error{
		&wlm.RejectedError{Message: "no"}, fmt.Errorf("asking: %w", site.ErrUnreachable), site.ErrTimeout, errors.New("odd"), context.Canceled,
	} {
		m.err = err
		_, got := counted.Submit(t.Context(), translate.Request{})
		assert.Equal(t, err, got)
	}
	m.err = errors.New("slurmctld is away")
	_, err = counted.List(t.Context())
	require.Error(t, err)
	compare(t, registry, `
gangline_workload_manager_call_duration_seconds{operation=cancel} 0
gangline_workload_manager_call_duration_seconds{operation=history} 0
gangline_workload_manager_call_duration_seconds{operation=inventory} 0
gangline_workload_manager_call_duration_seconds{operation=list} 2
gangline_workload_manager_call_duration_seconds{operation=name} 0
gangline_workload_manager_call_duration_seconds{operation=submit} 4
gangline_workload_manager_call_errors_total{operation=list,reason=other} 1
gangline_workload_manager_call_errors_total{operation=submit,reason=other} 1
gangline_workload_manager_call_errors_total{operation=submit,reason=rejected} 1
gangline_workload_manager_call_errors_total{operation=submit,reason=timeout} 1
gangline_workload_manager_call_errors_total{operation=submit,reason=unreachable} 1
gangline_workload_manager_up{} 0`,
		"gangline_workload_manager_call_duration_seconds", "gangline_workload_manager_call_errors_total", "gangline_workload_manager_up")
	_, err = counted.(wlm.Historian).Ended(t.Context(), nil)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "it keeps no history")
}

func TestWritesToTheAPIServerAreCountedByResource(t *testing.T) {
	p, _, registry := newMetrics(t, Sources{})
	status := http.StatusOK
	transport := p.API(roundTripper(func(*http.Request) (*http.Response, error) {
		if status == 0 {
			return nil, net.ErrClosed
		}
		return &http.Response{StatusCode: status, Body: http.NoBody}, nil
	}))
	send := func(method, path string, answer int) {
		status = answer
		request, err := http.NewRequestWithContext(t.Context(), method, "https://api"+path, nil)
		require.NoError(t, err)
		if response, err := transport.RoundTrip(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	send("GET", "/api/v1/namespaces/team-a/pods/p", 200)
	send("PATCH", "/api/v1/namespaces/team-a/pods/p/status?fieldManager=x", 200)
	send("PATCH", "/api/v1/namespaces/team-b/pods/q/status", 409)
	send("PATCH", "/api/v1/namespaces/team-b/pods/q/status", 0)
	send("POST", "/api/v1/namespaces/team-a/events", 201)
	send("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/hpc", 200)
	send("POST", "/anything/else", 404)
	compare(t, registry, `
gangline_api_writes_total{code=200,resource=leases,verb=update} 1
gangline_api_writes_total{code=200,resource=pods/status,verb=patch} 1
gangline_api_writes_total{code=201,resource=events,verb=create} 1
gangline_api_writes_total{code=404,resource=other,verb=other} 1
gangline_api_writes_total{code=409,resource=pods/status,verb=patch} 1
gangline_api_writes_total{code=none,resource=pods/status,verb=patch} 1`, "gangline_api_writes_total")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheSpoolAndConnectionsAreCounted(t *testing.T) {
	p, _, registry := newMetrics(t, Sources{})
	s := p.Site(site.Local{})
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	require.NoError(t, s.Write(t.Context(), file, []byte("12345"), 0o600))
	piece, err := s.ReadAt(t.Context(), dir, "f", 0, 5)
	require.NoError(t, err)
	assert.Equal(t, "12345", string(piece.Data))
	_, err = s.Changed(t.Context(), []site.Watched{{Path: file}, {Path: file + "x"}})
	require.NoError(t, err)
	require.Error(t, s.Write(t.Context(), "/nonexistent/f", nil, 0o600))
	compare(t, registry, `
gangline_spool_bytes_total{direction=read} 10
gangline_spool_bytes_total{direction=written} 5
gangline_spool_call_duration_seconds{operation=read} 1
gangline_spool_call_duration_seconds{operation=scan} 1
gangline_spool_call_duration_seconds{operation=write} 2
gangline_spool_call_errors_total{operation=write,reason=other} 1
gangline_spool_scanned_files_total{} 2`,
		"gangline_spool_bytes_total", "gangline_spool_call_duration_seconds", "gangline_spool_call_errors_total", "gangline_spool_scanned_files_total")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn, err := s.DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	assert.InDelta(t, 1, testutil.ToFloat64(p.connections), 0)
	require.NoError(t, conn.Close())
	_ = conn.Close()
	assert.Zero(t, testutil.ToFloat64(p.connections), "closed once, whoever closes it again")
	require.NoError(t, listener.Close())
	_, err = s.DialContext(t.Context(), "tcp", listener.Addr().String())
	require.Error(t, err)
	compare(t, registry, `
gangline_ssh_connect_duration_seconds{result=error} 1
gangline_ssh_connect_duration_seconds{result=ok} 1`, "gangline_ssh_connect_duration_seconds")
}

func TestASiteIsDownAfterACallThatDidNotGetThrough(t *testing.T) {
	p, _, _ := newMetrics(t, Sources{})
	cut := &cutSite{}
	s := p.Site(cut).(*Site)
	look := func(err error) bool {
		cut.err = err
		_, _ = s.List(t.Context(), "/d")
		return s.Down()
	}
	assert.False(t, look(errors.New("no such user")))
	assert.True(t, look(fmt.Errorf("reading: %w", site.ErrUnreachable)))
	assert.True(t, look(context.Canceled), "who gave up has learnt nothing")
	assert.False(t, look(nil))
}

type cutSite struct {
	site.Local
	err error
}

func (s *cutSite) List(context.Context, string) ([]site.Entry, error) { return nil, s.err }
