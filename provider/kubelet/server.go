package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// Streams end when nothing has come for kubelet's own limits
// (streamingConnectionIdleTimeout, and 30 s to open one).
const (
	streamIdleTimeout     = 4 * time.Hour
	streamCreationTimeout = 30 * time.Second
	shutdownTimeout       = 5 * time.Second
)

// Pods is what the API needs to know of the node's pods.
type Pods interface {
	// Pod returns a pod of this node, or an error that is NotFound in
	// Kubernetes' sense.
	Pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error)
	// List returns all pods of this node, Running those of which something runs.
	List(ctx context.Context) ([]*corev1.Pod, error)
	Running(ctx context.Context) ([]*corev1.Pod, error)
	// Place tells where a pod runs or ran. It reports false for one that
	// never got so far.
	Place(pod types.UID) (Place, bool)
}

// Place is where a pod runs or ran.
type Place struct {
	// Site is where the directory and the agents are, as the pod's user sees it.
	Site site.Site
	Dir  spool.Dir
	Slot int
	// Credentials open the slot's SSH service.
	Credentials sshclient.Credentials
}

// Config is how the API is served.
type Config struct {
	Address  string
	Port     int32
	NodeName string
	// CertFile and KeyFile hold the serving certificate; or else it is asked of
	// the API server and kept in CertDir.
	CertFile, KeyFile string
	CertDir           string
	// Requested is one of CertDir that was asked for already; nil if none was.
	Requested *RequestedCertificate
	// ClientCAFile holds the CA of the API server's client certificate.
	ClientCAFile string
	// Reviews asks the API server about callers. It should have a rate of its
	// own: anybody who reaches the port can make it ask.
	Reviews kubernetes.Interface
	// Recorder tells of requested certificates.
	Recorder record.EventRecorder
	// Usages tells what the pods use.
	Usages Usages
	// Ready answers /readyz, and Metrics has the process's own metrics.
	Ready   http.Handler
	Metrics prometheus.Gatherer
	// Page is the node's web page.
	Page http.Handler
}

// Server is the node's API.
type Server struct {
	config       Config
	handler      http.Handler
	certificates certificates
	log          logr.Logger
}

// New makes the server. The files of the configuration are read here.
func New(ctx context.Context, c Config, clientset kubernetes.Interface, pods Pods) (*Server, error) {
	who, err := newAccess(ctx, c.NodeName, c.ClientCAFile, c.Reviews)
	if err != nil {
		return nil, err
	}
	certificates, err := newCertificates(ctx, c, clientset)
	if err != nil {
		return nil, err
	}
	streams := &streams{pods: pods}
	stats := newStats(c.NodeName, c.Usages)
	table := routes(handlers{
		healthz:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }),
		readyz:      c.Ready,
		metrics:     promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{}),
		pods:        api.HandleRunningPods(pods.List),
		runningPods: api.HandleRunningPods(pods.Running),
		logs:        &logs{pods: pods},
		page:        http.StripPrefix(pagePath, c.Page),
		summary:     http.HandlerFunc(stats.ServeSummary),
		resource:    http.HandlerFunc(stats.ServeResource),
		exec:        failing(streams.exec),
		attach:      failing(streams.attach),
		portForward: failing(streams.portForward),
	})
	return &Server{
		config: c, handler: mux(table, who), certificates: certificates,
		log: logr.FromContextOrDiscard(ctx),
	}, nil
}

// The limits of a connection: kubelet's own for idle ones, and Go's for headers,
// which hold tokens.
const (
	readHeaderTimeout = 30 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeaderBytes    = http.DefaultMaxHeaderBytes
)

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	address := net.JoinHostPort(s.config.Address, fmt.Sprint(s.config.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serving the node API: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: readHeaderTimeout, // the handshake's too
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Whoever knocks can cause these; they are no news.
		ErrorLog:    slog.NewLogLogger(logr.ToSlogHandler(s.log), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: serve(s.certificates),
			// Tokens do as well: who shows no certificate is asked for none.
			ClientAuth: tls.RequestClientCert,
		},
	}
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	go s.certificates.run(ctx)
	server := s.server(ctx)
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the node API on %s: %w", listener.Addr(), err)
	}
	return nil
}
