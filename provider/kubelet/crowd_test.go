package kubelet

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestANamespaceCannotTakeAllStreams(t *testing.T) {
	var c crowd
	inside, end := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/exec/{namespace}", c.bound(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-end
	})))
	ask := func(namespace string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/exec/"+namespace, nil))
		return w
	}
	var open sync.WaitGroup
	for range maxStreams {
		open.Go(func() { ask("greedy") })
		<-inside
	}
	refused := ask("greedy")
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	assert.Contains(t, refused.Body.String(), "namespace greedy has 256 logs and sessions open")
	open.Go(func() { assert.Equal(t, http.StatusOK, ask("other").Code, "another namespace is served") })
	<-inside
	close(end)
	open.Wait()
	assert.Empty(t, c.open)
}
