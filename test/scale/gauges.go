package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// gauges are what the node says of itself at one moment.
type gauges struct {
	at    time.Time
	rss   float64 // bytes
	cpu   float64 // seconds, of the process so far
	heap  float64 // bytes in use
	gorts float64
	// server is the API server's processor time, in seconds so far; etcd's is not in it.
	server float64
	// writes are the calls that change something in the API server, by resource and verb,
	// without the lease, which says only that the node lives.
	writes map[string]float64
}

// total is the sum of all writes.
func (g gauges) total() float64 {
	sum := 0.0
	for _, n := range g.writes {
		sum += n
	}
	return sum
}

// gauges asks the node, and the API server what it has used.
func (w *world) gauges(ctx context.Context) (gauges, error) {
	g, err := w.nodeGauges(ctx)
	if err != nil {
		return g, err
	}
	text, err := w.clients.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return g, fmt.Errorf("asking the API server's metrics: %w", err)
	}
	server, err := parseGauges(bytes.NewReader(text), time.Now())
	g.server = server.cpu
	return g, err
}

// nodeGauges asks the node alone.
func (w *world) nodeGauges(ctx context.Context) (gauges, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.metrics, nil)
	if err != nil {
		return gauges{}, fmt.Errorf("asking the node's metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return gauges{}, fmt.Errorf("asking the node's metrics: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	g, err := parseGauges(response.Body, time.Now())
	if err == nil && g.rss == 0 {
		err = errors.New("the node's metrics do not tell its memory")
	}
	return g, err
}

func parseGauges(text io.Reader, now time.Time) (gauges, error) {
	g := gauges{at: now, writes: map[string]float64{}}
	plain := map[string]*float64{
		"process_resident_memory_bytes": &g.rss, "process_cpu_seconds_total": &g.cpu,
		"go_memstats_heap_inuse_bytes": &g.heap, "go_goroutines": &g.gorts,
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if at := strings.LastIndex(lines.Text(), "} "); at >= 0 {
			name, value = lines.Text()[:at+1], lines.Text()[at+2:]
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		if into := plain[name]; into != nil {
			*into = number
		}
		if labels, ok := strings.CutPrefix(name, "gangline_api_writes_total{"); ok && !strings.Contains(labels, `resource="leases"`) {
			g.writes[label(labels, "resource")+" "+label(labels, "verb")] += number
		}
	}
	if err := lines.Err(); err != nil {
		return g, fmt.Errorf("reading the node's metrics: %w", err)
	}
	return g, nil
}

// label is a label's value in a line of metrics.
func label(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// peak follows the node's memory.
type peak struct {
	mu   sync.Mutex
	most float64
}

func (p *peak) follow(ctx context.Context, w *world) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		g, _ := w.nodeGauges(ctx) // it may be between two lives
		p.mu.Lock()
		p.most = max(p.most, g.rss)
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *peak) bytes() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// errPartIsOver is why a profile of a part's processor time is given up.
var errPartIsOver = fmt.Errorf("the part was over before the %d s of a profile", profileSeconds)

// profile keeps a profile of the node, from the route of its own port. It tells of what
// goes wrong, and fails nothing.
func (w *world) profile(ctx context.Context, s settings, kind, name string) {
	if s.profiles == "" {
		return
	}
	data, err := w.askPort(ctx, "/debug/pprof/"+kind)
	if err == nil {
		err = os.MkdirAll(s.profiles, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.profiles, name+"."+kind), data, 0o600)
	}
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errPartIsOver):
		fmt.Fprintf(s.progress, "no profile of %s: %v\n", name, errPartIsOver)
	case ctx.Err() == nil:
		fmt.Fprintf(s.progress, "no profile of %s: %v\n", name, err)
	}
}

// askPort asks the node's own port as the administrator.
func (w *world) askPort(ctx context.Context, path string) ([]byte, error) {
	node, err := w.clients.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("finding the node's port: %w", err)
	}
	c := rest.CopyConfig(w.rest)
	// Its certificate is for another caller's eyes: the API server's.
	c.Insecure, c.CAData, c.CAFile = true, nil, ""
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("making a client of the node's port: %w", err)
	}
	url := fmt.Sprintf("https://127.0.0.1:%d%s?seconds=%d", node.Status.DaemonEndpoints.KubeletEndpoint.Port, path, profileSeconds)
	if !strings.HasSuffix(path, "profile") {
		url, _, _ = strings.Cut(url, "?")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the node's port: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the node's port: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the node's port answered %s: %w: %.200s", response.Status, err, data)
	}
	return data, nil
}

// profileSeconds is how long a profile of the processor lasts.
const profileSeconds = 20
