package statusserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slow is an API server that answers when it is told to.
type slow struct {
	client.Client
	asked, answer chan struct{}
}

func (s *slow) Create(ctx context.Context, _ client.Object, _ ...client.CreateOption) error {
	s.asked <- struct{}{}
	select {
	case <-s.answer:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func newSlow() *slow { return &slow{asked: make(chan struct{}), answer: make(chan struct{})} }

// running is a started server.
type running struct {
	server *Server
	url    string
	client *http.Client
	stop   context.CancelFunc
	ended  chan error
}

func run(t *testing.T, c client.Client) *running {
	t.Helper()
	config, httpClient := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	r := &running{
		server: New(Options{TLS: config, Client: c, Log: testr.New(t)}),
		url:    "https://" + listener.Addr().String(),
		client: httpClient, stop: stop, ended: make(chan error, 1),
	}
	require.Error(t, r.server.Ready(nil), "it does not listen yet")
	go func() { r.ended <- r.server.serve(ctx, listener) }()
	return r
}

func (r *running) post(t *testing.T) (int, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+Path("a", "b"), strings.NewReader("{}"))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer token")
	response, err := r.client.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, err
}

func TestAnEndLetsABegunReportFinish(t *testing.T) {
	api := newSlow()
	r := run(t, api)
	code := make(chan int, 1)
	go func() {
		c, err := r.post(t)
		assert.NoError(t, err)
		code <- c
	}()
	<-api.asked
	assert.NoError(t, r.server.Ready(nil))
	r.stop()
	select {
	case err := <-r.ended:
		t.Fatalf("the server ended during a request: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(api.answer)
	assert.Equal(t, http.StatusForbidden, <-code)
	assert.NoError(t, <-r.ended)
	assert.Error(t, r.server.Ready(nil))
	_, err := r.post(t)
	assert.Error(t, err, "it no longer listens")
}

func TestTooManyReportsAtOnce(t *testing.T) {
	api := newSlow()
	r := run(t, api)
	codes := make(chan int, maxInFlight)
	for range maxInFlight {
		go func() {
			c, err := r.post(t)
			assert.NoError(t, err)
			codes <- c
		}()
	}
	for range maxInFlight {
		<-api.asked
	}
	code, err := r.post(t)
	require.NoError(t, err)
	assert.Equal(t, http.StatusTooManyRequests, code)
	close(api.answer)
	for range maxInFlight {
		assert.Equal(t, http.StatusForbidden, <-codes)
	}
	r.stop()
	assert.NoError(t, <-r.ended)
}

func TestAnAddressInUseIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // it only holds the port
	config, _ := certificate(t)
	s := New(Options{Address: listener.Addr().String(), TLS: config, Log: testr.New(t)})
	assert.ErrorContains(t, s.Start(t.Context()), "status server: listen tcp 127.0.0.1")
}

func TestItServesOnEveryReplica(t *testing.T) {
	assert.False(t, New(Options{}).NeedLeaderElection())
}

func TestNobodyHoldsUpTheServer(t *testing.T) {
	s := New(Options{Log: testr.New(t)}).server()
	for what, limit := range map[string]time.Duration{"read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout} {
		assert.Positive(t, limit, what)
	}
	assert.Positive(t, s.MaxHeaderBytes)
	assert.LessOrEqual(t, s.MaxHeaderBytes, 64<<10)
}
