package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain lets the test's own program be the parts in other processes, as the command is.
func TestMain(m *testing.M) {
	if os.Getenv(envPart) != "" {
		os.Exit(part())
	}
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestScale is the short form of make scale: all that it holds to be right, with few pods.
func TestScale(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	r, err := measure(t.Context(), settings{
		pods: 300, gangs: 15, seed: 1, window: 3 * time.Second, root: root, progress: t.Output(),
	})
	require.NoError(t, err)
	var table bytes.Buffer
	require.NoError(t, r.print(&table))
	t.Log("\n" + table.String())
	for _, part := range []string{"created → Running reported", "steady state", "restart", "deletion → gone"} {
		assert.Contains(t, table.String(), part)
	}
}

// TestStorm is the short form of make scale FAILURES=… KILLS=….
func TestStorm(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	r, err := measure(t.Context(), settings{
		pods: 120, gangs: 60, seed: 1, failures: 0.15, kills: 2, root: root, progress: t.Output(),
	})
	require.NoError(t, err)
	var table bytes.Buffer
	require.NoError(t, r.print(&table))
	t.Log("\n" + table.String())
	assert.Contains(t, table.String(), "ended by harm")
}

func TestTheWatchEndsBeforeWhatItWatches(t *testing.T) {
	w := &world{clients: fake.NewClientset()}
	var seen *watched
	w.ends = append(w.ends, func() error {
		assert.True(t, seen.informer.IsStopped(), "it would see the API server go")
		return nil
	})
	var err error
	seen, err = w.watch(t.Context())
	require.NoError(t, err)
	assert.False(t, seen.informer.IsStopped())
	require.NoError(t, w.stop())
}

func TestAProfileThatAPartIsTooShortForIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		says  string
	}{
		"the part was over":       {errPartIsOver, "no profile of ramp: the part was over before the 20 s of a profile\n"},
		"the run was interrupted": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			end(tc.cause)
			var said bytes.Buffer
			w := &world{clients: fake.NewClientset(), rest: &rest.Config{}}
			w.profile(ctx, settings{profiles: t.TempDir(), progress: &said}, "profile", "ramp")
			assert.Equal(t, tc.says, said.String())
		})
	}
}

func TestParseGauges(t *testing.T) {
	g, err := parseGauges(strings.NewReader(`# HELP something
process_resident_memory_bytes 1.5e+08
process_cpu_seconds_total 12.5
go_goroutines 99
gangline_api_writes_total{code="200",resource="pods/status",verb="patch"} 40
gangline_api_writes_total{code="409",resource="pods/status",verb="patch"} 2
gangline_api_writes_total{code="200",resource="leases",verb="update"} 7
gangline_api_writes_total{code="201",resource="events",verb="create"} 5
`), time.Time{})
	require.NoError(t, err)
	assert.InDelta(t, 1.5e8, g.rss, 0)
	assert.InDelta(t, 12.5, g.cpu, 0)
	assert.InDelta(t, 99, g.gorts, 0)
	assert.Equal(t, map[string]float64{"pods/status patch": 42, "events create": 5}, g.writes, "the lease is none")
	assert.InDelta(t, 47, g.total(), 0)

	later := gauges{writes: map[string]float64{"pods/status patch": 43, "events create": 5, "nodes patch": 1}}
	assert.Equal(t, map[string]float64{"pods/status patch": 1, "nodes patch": 1}, difference(g, later))
}

func TestBatches(t *testing.T) {
	b := batch{name: "b", pods: 6, gangs: 2}
	assert.Equal(t, 2, b.jobs())
	assert.Equal(t, "b-1", b.pod(3).Annotations["gangline.dev/gang-name"])
	assert.Equal(t, "3", b.pod(3).Annotations["gangline.dev/gang-size"])
	assert.Equal(t, nodeName, b.pod(3).Spec.NodeName)

	alone := batch{name: "a", pods: 6, scheduled: true}
	assert.Equal(t, 6, alone.jobs())
	assert.Empty(t, alone.pod(0).Annotations)
	assert.Empty(t, alone.pod(0).Spec.NodeName)
}

func TestQuantile(t *testing.T) {
	assert.Zero(t, quantile(nil, .5))
	sorted := []time.Duration{1, 2, 3, 4}
	assert.Equal(t, time.Duration(3), quantile(sorted, .5))
	assert.Equal(t, time.Duration(4), quantile(sorted, 1))
}
