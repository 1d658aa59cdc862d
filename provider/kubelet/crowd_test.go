package kubelet

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestANamespaceCannotTakeAllStreams(t *testing.T) {
	inside, end := make(chan struct{}), make(chan struct{})
	stream := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-end
	})
	mux, streams := http.NewServeMux(), 0
	for _, r := range routes(handlers{logs: stream, exec: stream, attach: stream, portForward: stream}) {
		if strings.Contains(r.Path, "{pod}") {
			mux.Handle(r.Path, r.handler)
			streams++
		}
	}
	require.Equal(t, 4, streams)
	ask := func(kind, namespace string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		path := "/" + kind + "/" + namespace + "/pod"
		if kind != "portForward" {
			path += "/main"
		}
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		return w
	}
	kinds := []string{"containerLogs", "exec", "attach", "portForward"}
	var open sync.WaitGroup
	for i := range maxStreams {
		open.Go(func() { ask(kinds[i%len(kinds)], "greedy") })
		<-inside
	}
	for _, kind := range kinds {
		refused := ask(kind, "greedy")
		require.Equal(t, http.StatusTooManyRequests, refused.Code, kind)
		assert.Contains(t, refused.Body.String(), "namespace greedy has 256 logs and sessions open")
	}
	open.Go(func() { assert.Equal(t, http.StatusOK, ask("exec", "other").Code, "another namespace is served") })
	<-inside
	close(end)
	open.Wait()
	open.Go(func() { assert.Equal(t, http.StatusOK, ask("exec", "greedy").Code, "all places are free again") })
	<-inside
	open.Wait()
}

func TestNobodyHoldsUpThePort(t *testing.T) {
	s := (&Server{log: logr.Discard()}).server(t.Context())
	assert.Positive(t, s.ReadHeaderTimeout)
	assert.Positive(t, s.IdleTimeout)
	assert.Positive(t, s.MaxHeaderBytes)
	assert.LessOrEqual(t, s.MaxHeaderBytes, 1<<20)
}
