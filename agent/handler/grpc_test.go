package handler_test

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/probe"
)

// serveGRPC starts a gRPC server and returns its port.
func serveGRPC(t *testing.T, withHealth bool, options ...grpc.ServerOption) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(options...)
	if withHealth {
		h := health.NewServer()
		h.SetServingStatus("good", healthv1.HealthCheckResponse_SERVING)
		h.SetServingStatus("bad", healthv1.HealthCheckResponse_NOT_SERVING)
		healthv1.RegisterHealthServer(server, h)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return portOf(t, l.Addr().String()).IntVal
}

func TestGRPC(t *testing.T) {
	// A certificate that nobody knows.
	borrowed := httptest.NewTLSServer(nil)
	borrowed.Close()
	secure := serveGRPC(t, true, grpc.Creds(credentials.NewServerTLSFromCert(&borrowed.TLS.Certificates[0])))
	plain, other := serveGRPC(t, true), serveGRPC(t, false)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()

	for sentence, c := range map[string]struct {
		action  corev1.GRPCAction
		outcome probe.Outcome
		message string
	}{
		"the server as a whole":               {corev1.GRPCAction{Port: plain}, probe.Success, ""},
		"a service that is well":              {corev1.GRPCAction{Port: plain, Service: ptr.To("good")}, probe.Success, ""},
		"a service that is not":               {corev1.GRPCAction{Port: plain, Service: ptr.To("bad")}, probe.Failure, `service unhealthy (responded with "NOT_SERVING")`},
		"a service that is not known":         {corev1.GRPCAction{Port: plain, Service: ptr.To("x")}, probe.Failure, "code = 5 desc = unknown service"},
		"a server without the health service": {corev1.GRPCAction{Port: other}, probe.Failure, "does not implement the grpc health protocol"},
		"a server with TLS":                   {corev1.GRPCAction{Port: secure, Mode: ptr.To(corev1.GRPCProbeModeTLS)}, probe.Success, ""},
		"a server with TLS, asked without":    {corev1.GRPCAction{Port: secure}, probe.Failure, "error: failed to connect"},
		"nobody listens":                      {corev1.GRPCAction{Port: closedPort(t).IntVal}, probe.Failure, "connection refused"},
		"nobody answers":                      {corev1.GRPCAction{Port: portOf(t, silent.Addr().String()).IntVal}, probe.Failure, "within 1s"},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := local.Probe(t.Context(), once(corev1.ProbeHandler{GRPC: &c.action}))
			assert.Equal(t, c.outcome, r.Outcome, r.Message)
			assert.Contains(t, r.Message, c.message)
		})
	}
}
