package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/page"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/translate/wellknown"
)

// hostile would do something if the page ever read it as HTML.
const hostile = `<img src=x onerror=alert(1)>`

// TestPage looks at the node's web page in headless Chromium, by way of kubectl proxy.
func TestPage(t *testing.T) {
	t.Parallel()
	loopback := freeLoopback(t)
	env := environmentWith(t, harness.Options{
		Name: "page", WorkloadManager: "slurm", Nodes: 2, Address: routableAddress(t),
		Configure: func(c *provider.Config) { c.PageAddress = loopback },
	})
	w, other := newWorld(t, env), newWorld(t, env)

	w.create(makeJobSet("train", w.replicated("node", "sleep 600", 2, resources("5", "3"))))
	w.waitAll("train", corev1.PodRunning, 2)
	w.create(makeJobSet("waits", w.replicated("node", "true", 2, resources("8", "8"))))
	bad := other.makePod("bad", "", resources("1", "0"))
	bad.Spec.Containers[0].Command, bad.Spec.Containers[0].Args = []string{hostile}, nil
	lone := other.makePod("lone", "true", resources("1", "0"))
	lone.Annotations = map[string]string{wellknown.AnnotationGangName: "trio", wellknown.AnnotationGangSize: "3"}
	other.create(bad, lone)
	other.waitPhase("bad", corev1.PodFailed)
	w.eventually("the second gang waits in Slurm's queue", func(context.Context) (bool, string) {
		pods := w.jobSetPods("waits")
		return len(pods) == 2 && pods[0].Status.Reason == wellknown.ReasonQueued, "too few pods"
	})

	base := kubectlProxy(t, env.ControlPlane.Kubeconfig()) + "/api/v1/nodes/page/proxy/gangline"
	answer, err := http.Get(base) // without the last slash
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.NoError(t, answer.Body.Close())
	assert.Contains(t, string(body), "<title>Gangline</title>")
	assert.Equal(t, strings.TrimPrefix(base, "http://")+"/", answer.Request.URL.Host+answer.Request.URL.Path)
	assert.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")

	seen := lookAt(t, base+"/", "--wait="+hostile, "--namespace="+other.namespace)
	assert.Empty(t, seen.Console, "nothing to complain about")
	assert.Zero(t, seen.Dialogs, "nothing hostile has run")
	assert.Zero(t, seen.Foreign, "and nothing was read as HTML")
	assert.True(t, seen.Dark)
	assert.Equal(t, "live", seen.Live)
	require.NotEmpty(t, seen.Requests)
	for _, r := range seen.Requests {
		assert.True(t, strings.HasPrefix(r, base+"/"), r)
	}
	assert.Equal(t, []string{"page-hpc1", "page-hpc2"}, seen.Hosts)
	assert.Equal(t, 6, seen.Used)
	stages := map[string]int{}
	for _, stage := range seen.Gangs {
		stages[stage]++
	}
	assert.Equal(t, 1, stages["Running"], "%v", seen.Gangs)
	assert.Equal(t, 1, stages["Queued"], "%v", seen.Gangs)
	assert.Equal(t, 1, stages["Forming"], "%v", seen.Gangs)
	for _, text := range []string{"JobSet " + w.namespace + "/train", "place 1 of 1 among those of this node", hostile, "1 of 3 pods", "partition batch"} {
		assert.Contains(t, seen.Text, text)
	}
	assert.Contains(t, seen.Slots, "page-hpc1")
	assert.Contains(t, seen.Slots, "waits-node-0-0-", "a pod that has no slot yet")
	assert.NotEmpty(t, seen.Filtered)
	assert.Less(t, len(seen.Filtered), len(seen.Gangs))

	onLoopback(t, loopback)
}

// pagesOnLoopback are the pages of a process with two virtual nodes.
func pagesOnLoopback(w *world, address string) {
	get := func(path string) string {
		answer, err := http.Get("http://" + address + path)
		require.NoError(w, err)
		defer answer.Body.Close() //nolint:errcheck // it was read
		data, err := io.ReadAll(answer.Body)
		require.NoError(w, err)
		return string(data)
	}
	for _, node := range []string{"inventory", "inventory-low"} {
		assert.Contains(w, get("/"), `href="nodes/`+node+`/"`)
		assert.Contains(w, get("/nodes/"+node+"/api/state"), `"node":"`+node+`"`)
	}
}

// onLoopback is the page where nobody is asked who he is.
func onLoopback(t *testing.T, address string) {
	t.Helper()
	get := func(host string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/api/state", nil)
		require.NoError(t, err)
		request.Host = host
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close() //nolint:errcheck // it was read
		data, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(data)
	}
	status, text := get(address)
	assert.Equal(t, http.StatusOK, status)
	var v page.View
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	assert.Equal(t, "page", v.Node)
	status, _ = get("evil.example")
	assert.Equal(t, http.StatusMisdirectedRequest, status, "a name that was made to point here")
}

// freeLoopback is an address that nobody uses now.
func freeLoopback(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // it only showed the number
	return l.Addr().String()
}

// kubectlProxy starts kubectl proxy and returns where it is.
func kubectlProxy(t *testing.T, kubeconfig string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(), "bin", "kubectl"), "proxy", "--port=0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, address, found := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	require.True(t, found, line)
	return "http://" + address
}

// seen is what the browser saw (see test/page).
type seen struct {
	Text, Live, Slots string
	Gangs             map[string]string
	Hosts, Filtered   []string
	Used              int
	Dark              bool
	Foreign, Dialogs  int
	Console, Requests []string
}

func lookAt(t *testing.T, url string, args ...string) seen {
	t.Helper()
	picture := filepath.Join(t.ArtifactDir(), "page.png")
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(), "bin", "pagecheck"), append([]string{"--url=" + url, "--picture=" + picture}, args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err, "make pagecheck builds it, and apt-get install chromium gives it a browser")
	var s seen
	require.NoError(t, json.Unmarshal(out, &s))
	return s
}
