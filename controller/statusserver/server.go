package statusserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The server's times, short enough that no client can hold it up.
const (
	readTimeout     = 10 * time.Second
	requestTimeout  = 10 * time.Second // from the header to the API server's answer
	writeTimeout    = 15 * time.Second // longer than requestTimeout, so that a 500 still gets out
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 5 * time.Second
	maxHeader       = 16 << 10 // bytes
)

// Options are a Server's.
type Options struct {
	// Address is host:port to listen on.
	Address string
	// TLS has the serving certificate.
	TLS *tls.Config
	// Client reviews tokens and writes statuses. One of its own keeps reports
	// from using up the controllers' share of requests.
	Client client.Client
	Log    logr.Logger
}

// Server takes reports.
type Server struct {
	address string
	tls     *tls.Config
	client  client.Client
	log     logr.Logger

	listening atomic.Bool
}

var (
	_ manager.Runnable               = (*Server)(nil)
	_ manager.LeaderElectionRunnable = (*Server)(nil)
)

// New makes a server, which serves once it is started.
func New(o Options) *Server {
	return &Server{address: o.Address, tls: o.TLS, client: o.Client, log: o.Log}
}

// NeedLeaderElection is false: every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Ready is a probe: an error until the server listens.
func (s *Server) Ready(*http.Request) error {
	if !s.listening.Load() {
		return errors.New("the status server is not listening")
	}
	return nil
}

// Start serves until the context ends, then lets the requests that it has begun
// finish, for a few seconds at most.
func (s *Server) Start(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("status server: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) server() *http.Server {
	return &http.Server{
		Handler:        s.Handler(),
		ErrorLog:       slog.NewLogLogger(logr.ToSlogHandler(s.log.V(1)), slog.LevelInfo),
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
	}
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := s.server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(listener, s.tls)) }()
	s.listening.Store(true)
	defer s.listening.Store(false)
	s.log.Info("taking reports of trainings", "address", listener.Addr().String())
	select {
	case err := <-ended:
		return fmt.Errorf("status server: %w", err)
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil {
		return fmt.Errorf("ending the status server: %w", errors.Join(err, server.Close()))
	}
	return nil
}
