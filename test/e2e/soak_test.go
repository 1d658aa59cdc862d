package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/test/soak"
)

// envSoakDuration is for how long TestSoak soaks (a Go duration). Without it it does so for
// some seconds, of which only what is left in the end is judged by its amount.
const envSoakDuration = "GANGLINE_SOAK_DURATION"

// TestSoak has gangs come and go, and people look into them, while what the node uses is
// measured. It must not grow.
func TestSoak(t *testing.T) {
	t.Parallel()
	duration, every := 8*time.Second, 500*time.Millisecond
	text := os.Getenv(envSoakDuration)
	long := text != ""
	if long {
		var err error
		duration, err = time.ParseDuration(text)
		require.NoError(t, err)
		every = max(duration/400, time.Second)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	env := environmentWith(t, harness.Options{
		Name: "soak", WorkloadManager: "slurm", Nodes: 2, Slurm: func(c *slurm.Config) { c.MinJobAge = 15 }, // or what Slurm remembers grows for minutes
		Login: long, // SSH to the site as well
		Configure: func(c *provider.Config) {
			c.MetricsAddress = address
			if long {
				c.Identity = identity.Map{{Identity: identity.Identity{User: harness.Users()[0]}}}
			}
		},
	})
	w := &soaking{
		world: newWorld(t, env), url: "http://" + address + "/metrics",
		spool: strings.ReplaceAll(env.Node.Spool(), "{user}", harness.Users()[0]),
	}
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var all sync.WaitGroup
	const crowds = 4
	for i := range crowds {
		all.Go(func() { w.churn(ctx, rand.New(rand.NewPCG(1, uint64(i))), i) })
	}
	series := w.measure(ctx, every)
	all.Wait()
	t.Logf("%d gangs and %d looks into pods in %s\n%s", w.gangs.Load(), w.looks.Load(), duration, soak.Table(series))
	w.nothingStays()
	assert.NotZero(t, w.gangs.Load())
	for _, s := range series {
		assert.NotEmpty(t, s.Points, "%s was never measured", s.Name)
	}
	if !long {
		return // too short for a slope
	}
	for _, s := range series {
		assert.True(t, s.Flat(), "%s grows by %.3g %s an hour", s.Name, s.Slope(), s.Unit)
	}
}

type soaking struct {
	*world
	url, spool   string
	gangs, looks atomic.Int64
}

// churn has one gang after another, in all of their forms.
func (w *soaking) churn(ctx context.Context, r *rand.Rand, crowd int) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("soak-%d-%d", crowd, n)
		seconds := 2 * r.Float64()
		var owner client.Object = w.makeJob(name, fmt.Sprintf("sleep %.1f", seconds), resources("1", "0"))
		if r.IntN(2) == 0 {
			owner = makeJobSet(name, w.replicated("worker", fmt.Sprintf("echo hello; sleep %.1f; exit %d", seconds, r.IntN(5)/4), 2, resources("1", "0")))
		}
		w.create(owner)
		w.gangs.Add(1)
		if n%5 == 0 {
			w.lookInto(ctx, crowd, n)
		}
		if r.IntN(6) > 0 { // or it is deleted as it is
			w.eventually(name+" has ended", func(ctx context.Context) (bool, string) {
				err := w.client.Get(ctx, client.ObjectKeyFromObject(owner), owner)
				return err == nil && finished(owner), fmt.Sprint(err)
			})
		}
		require.NoError(w, w.client.Delete(w.Context(), owner, client.PropagationPolicy("Background")))
	}
}

// lookInto opens a session in a pod, and reads its log.
func (w *soaking) lookInto(ctx context.Context, crowd, n int) {
	name := fmt.Sprintf("look-%d-%d", crowd, n)
	pod := w.makePod(name, "echo hello; exec sleep 600", resources("1", "0"))
	w.create(pod)
	w.waitPhase(name, corev1.PodRunning)
	assert.Equal(w, "seen\n", w.must("exec", name, "--", "echo", "seen"))
	assert.Equal(w, "hello\n", w.must("logs", name))
	require.NoError(w, w.client.Delete(context.WithoutCancel(ctx), pod, client.GracePeriodSeconds(1)))
	w.looks.Add(1)
}

// measure samples until the context ends.
func (w *soaking) measure(ctx context.Context, every time.Duration) []soak.Series {
	all := []soak.Series{
		{Name: "node: memory", Unit: "MiB", Share: 0.08, Slack: 2, PerHour: 6},
		{Name: "node: heap in use", Unit: "MiB", Share: 0.15, Slack: 3, PerHour: 6},
		{Name: "node: goroutines", Unit: "", Share: 0.05, Slack: 8, PerHour: 10},
		{Name: "node: open files", Unit: "", Share: 0.05, Slack: 3, PerHour: 5},
		{Name: "node: SSH connections to agents", Unit: "", Slack: 1},
		{Name: "spool: files", Unit: "", Share: 0.1, Slack: 10},
		{Name: "spool: bytes", Unit: "KiB", Share: 0.1, Slack: 50},
		{Name: "HPC nodes: processes", Unit: "", Share: 0.1, Slack: 5},
		{Name: "API: pods", Unit: "", Share: 0.1, Slack: 3},
	}
	if w.env.Login != nil { // the gateway's, and all that leads through it
		all = append(all, soak.Series{Name: "node: SSH connections to the login node", Unit: "", Slack: 1})
	}
	began := time.Now()
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return all
		case <-tick.C:
		}
		m, err := singleValues(ctx, w.url)
		if err != nil {
			continue // the context has ended, or the next sample will do
		}
		pods := &corev1.PodList{}
		if err := w.client.List(ctx, pods, client.InNamespace(w.namespace)); err != nil {
			continue
		}
		files, bytes := sizeOf(w.spool)
		m["spool: files"], m["spool: bytes"] = float64(files), float64(bytes)
		m["processes"], m["pods"] = float64(len(programsBelow(w.env.Slurm.SharedDir()))), float64(len(pods.Items))
		if w.env.Login != nil {
			m["login node"] = float64(w.env.Login.Wire.Open())
		}
		const mib = 1 << 20
		for i, of := range []struct {
			name string
			unit float64
		}{
			{"process_resident_memory_bytes", mib}, {"go_memstats_heap_inuse_bytes", mib}, {"go_goroutines", 1}, {"process_open_fds", 1},
			{"gangline_ssh_connections", 1}, {"spool: files", 1}, {"spool: bytes", 1024}, {"processes", 1}, {"pods", 1},
			{"login node", 1},
		} {
			// What the node does not tell is not 0: without points nothing is flat.
			if v, told := m[of.name]; told {
				all[i].Add(time.Since(began), v/of.unit)
			}
		}
	}
}

// singleValues reads a program's metrics that have one value.
func singleValues(ctx context.Context, url string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	values := map[string]float64{}
	for name, f := range families {
		if len(f.Metric) == 1 {
			values[name] = f.Metric[0].GetGauge().GetValue() + f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetUntyped().GetValue()
		}
	}
	return values, err
}

// sizeOf is what is below a directory.
func sizeOf(dir string) (files int, bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone by now
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			files, bytes = files+1, bytes+info.Size()
		}
		return nil
	})
	return files, bytes
}

// nothingStays waits until nothing is there of all that was.
func (w *soaking) nothingStays() {
	w.waitEmpty("pod", func() ([]string, error) {
		pods := &corev1.PodList{}
		err := w.client.List(w.Context(), pods, client.InNamespace(w.namespace))
		return podsInWords(pods.Items), err
	})
	w.waitEmpty("directory in the spool", func() ([]string, error) { return listDir(filepath.Join(w.spool, "gangs")) })
	w.waitEmpty("agent", func() ([]string, error) { return programsBelow(w.env.Slurm.SharedDir()), nil })
	w.waitEmpty("SSH connection", func() ([]string, error) {
		m, err := singleValues(w.Context(), w.url)
		if n, told := m["gangline_ssh_connections"]; n != 0 || !told {
			return []string{fmt.Sprintf("%v, told: %v", n, told)}, err
		}
		return nil, err
	})
}

// programsBelow are the machine's processes that run a program below a directory, but for
// the gateway on the login node: it serves the virtual node for as long as that lives.
func programsBelow(dir string) (found []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // only a bad pattern is an error
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(exe, dir+"/") {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		if err == nil && !slices.Contains(strings.Split(string(command), "\x00"), "gateway") {
			found = append(found, link+" "+exe)
		}
	}
	return found
}
