package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"

	"github.com/gangline/gangline/mpi/sshclient"
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
	// List returns all pods of this node.
	List(ctx context.Context) ([]*corev1.Pod, error)
	// Place tells where a pod runs or ran. It reports false for one that
	// never got so far.
	Place(pod types.UID) (Place, bool)
}

// Place is where a pod runs or ran.
type Place struct {
	Dir  spool.Dir
	Slot int
	// Credentials open the slot's SSH service.
	Credentials sshclient.Credentials
}

// Config is how the API is served.
type Config struct {
	Address      string
	Port         int32
	NodeName     string
	CertFile     string
	KeyFile      string
	ClientCAFile string
}

// Server is the node's API.
type Server struct {
	config  Config
	handler http.Handler
}

// New makes the server. The files of the configuration are read here.
func New(ctx context.Context, c Config, clientset kubernetes.Interface, pods Pods) (*Server, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the API server's client certificate: %w", err)
	}
	go ca.Run(ctx, 1)
	auth, err := nodeutil.WebhookAuth(clientset, c.NodeName, func(w *nodeutil.WebhookAuthConfig) error {
		w.AuthnConfig.ClientCertificateCAContentProvider = ca
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the node API's authentication: %w", err)
	}
	streams := &streams{pods: pods}
	rest := api.PodHandler(api.PodHandlerConfig{
		RunInContainer:        streams.exec,
		AttachToContainer:     streams.attach,
		PortForward:           streams.portForward,
		GetPods:               pods.List,
		GetPodsFromKubernetes: pods.List,
		StreamIdleTimeout:     streamIdleTimeout,
		// Creation and idle timeouts are swapped by the library for
		// port-forward alone; both are generous enough either way.
		StreamCreationTimeout: streamCreationTimeout,
	}, true)
	mux := http.NewServeMux()
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", &logs{pods: pods})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	mux.Handle("/", rest)
	return &Server{config: c, handler: nodeutil.WithAuth(auth, mux)}, nil
}

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	cert, err := tls.LoadX509KeyPair(s.config.CertFile, s.config.KeyFile)
	if err != nil {
		return fmt.Errorf("reading the node API's certificate: %w", err)
	}
	address := net.JoinHostPort(s.config.Address, fmt.Sprint(s.config.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serving the node API: %w", err)
	}
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 30 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{cert},
			ClientAuth:   tls.RequestClientCert,
		},
	}
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the node API on %s: %w", address, err)
	}
	return nil
}
