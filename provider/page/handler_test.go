package page

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changing is a source whose state changes when it is told to.
type changing struct{ trouble atomic.Value }

func (c *changing) State() State {
	s := example()
	s.Trouble, _ = c.trouble.Load().(string)
	return s
}

// fixed is a source whose state does not change.
type fixed struct{ state State }

func (f fixed) State() State { return f.state }

func serve(t *testing.T, s Source) *httptest.Server {
	h, err := NewHandler(s)
	require.NoError(t, err)
	server := httptest.NewServer(http.StripPrefix("/any/prefix", h))
	t.Cleanup(server.Close)
	return server
}

func TestTheHandler(t *testing.T) {
	server := serve(t, &changing{})
	for path, kind := range map[string]string{
		"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css", "/icon.svg": "image/svg+xml", "/api/state": "application/json",
	} {
		answer, err := http.Get(server.URL + "/any/prefix" + path)
		require.NoError(t, err)
		assert.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusOK, answer.StatusCode, path)
		assert.Contains(t, answer.Header.Get("Content-Type"), kind)
		assert.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
		assert.NotContains(t, answer.Header.Get("Content-Security-Policy"), "unsafe")
		assert.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
		assert.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	}
	for _, path := range []string{"/nothing", "/../handler.go", "/assets/page.js"} {
		answer, err := http.Get(server.URL + "/any/prefix" + path)
		require.NoError(t, err)
		assert.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusNotFound, answer.StatusCode, path)
	}
	answer, err := http.Post(server.URL+"/any/prefix/api/state", "text/plain", nil)
	require.NoError(t, err)
	assert.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)

	answer, err = http.Get(server.URL + "/any/prefix/api/state?namespace=bob")
	require.NoError(t, err)
	var v View
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&v))
	assert.NoError(t, answer.Body.Close())
	assert.Len(t, v.Gangs, 3)
}

func TestEventsTellOfChanges(t *testing.T) {
	source := &changing{}
	server := serve(t, source)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/any/prefix/api/events", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it was read
	assert.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	next := func() View {
		t.Helper()
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var v View
				require.NoError(t, json.Unmarshal([]byte(text), &v))
				return v
			}
		}
		require.Fail(t, "the stream has ended", "%v", lines.Err())
		return View{}
	}
	assert.Empty(t, next().Trouble)
	source.trouble.Store("Slurm does not answer")
	assert.Equal(t, "Slurm does not answer", next().Trouble, "the first one after the change, and none before")
}

func TestLoopback(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:10280": true, "[::1]:10280": true, "127.8.8.8:1": true, "0.0.0.0:10280": false, "10.0.0.1:10280": false, ":10280": false, "localhost:1": false, "[::]:1": false,
	} {
		assert.Equal(t, good, CheckLoopback(address) == nil, address)
	}
	h := local(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:10280": 200, "localhost:8001": 200, "[::1]:9": 200, "evil.example:10280": 421, "10.0.0.1": 421,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
	}
}

// What the page is made of names nothing outside of it, and has no script or style of its
// own that the policy would keep from working.
func TestTheFilesStayAtHome(t *testing.T) {
	for _, name := range []string{"index.html", "page.js", "page.css"} {
		data, err := os.ReadFile("assets/" + name)
		require.NoError(t, err)
		for _, forbidden := range []string{`https?://`, `(src|href)="/`, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(`, `<script>|<style|style="|onclick=`, `@import|url\(`} {
			assert.NotRegexp(t, regexp.MustCompile(forbidden), string(data), name)
		}
	}
}

func TestSeveralNodesOnLoopback(t *testing.T) {
	handler := func(node string) http.Handler {
		h, err := NewHandler(fixed{State{Node: node}})
		require.NoError(t, err)
		return h
	}
	get := func(h http.Handler, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	both := together([]Named{{"hpc", handler("hpc")}, {"gpu", handler("gpu")}})
	code, text := get(both, "/")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, text, `<a href="nodes/hpc/">hpc</a>`)
	for _, node := range []string{"hpc", "gpu"} {
		code, text = get(both, "/nodes/"+node+"/")
		assert.Equal(t, http.StatusOK, code)
		assert.Contains(t, text, `<script src="page.js"`)
		_, text = get(both, "/nodes/"+node+"/api/state")
		assert.Contains(t, text, `"node":"`+node+`"`)
	}
	code, _ = get(both, "/api/state")
	assert.Equal(t, http.StatusNotFound, code)

	_, text = get(together([]Named{{"hpc", handler("hpc")}}), "/api/state")
	assert.Contains(t, text, `"node":"hpc"`, "a single one is where it has always been")
}
