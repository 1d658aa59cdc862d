package sshd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/sshclient"
)

const (
	// maxChannels is how many sessions and forwarded ports one connection may
	// have at a time: far more than a launcher needs, and less than makes a loop in
	// a program everybody's trouble.
	maxChannels = 1024

	// Limits on clients that have not yet shown the key:

	// maxUnauthenticated connections shake hands at a time; more wait in the
	// listener's queue.
	maxUnauthenticated = 256
	// A handshake takes milliseconds. It has handshakeTimeout, and only
	// hurriedTimeout while more than half of the places are taken, so that
	// silent strangers cannot keep the gang out.
	handshakeTimeout = 20 * time.Second
	hurriedTimeout   = 3 * time.Second
	// acceptRetry is the pause after the listener failed, for instance for
	// want of file descriptors.
	acceptRetry = 100 * time.Millisecond
)

// Config is what a service needs besides a Runner.
type Config struct {
	// HostKey is the service's private key (PEM, OpenSSH's or an older form).
	HostKey []byte
	// AuthorizedKeys are the public keys that open it (authorized_keys lines).
	// Lines with options are left out: none of them is honoured, and some forbid.
	AuthorizedKeys []byte
	// Admit may still refuse a client that has an authorized key; the client is
	// shown the error. Nil refuses nobody.
	Admit func(key ssh.PublicKey) error
	// Subsystems are those that the Runner knows.
	Subsystems []string
	// Peers returns the addresses of a host of the gang, to which clients may have
	// ports forwarded besides localhost; none for any other host. Nil for no host.
	Peers func(host string) []string
	// Logger may be nil for none.
	Logger *slog.Logger
}

// Server is the SSH service of one slot.
type Server struct {
	config     *ssh.ServerConfig
	runner     Runner
	subsystems []string
	peers      func(host string) []string
	logger     *slog.Logger
	lobby      chan struct{} // a place for each connection that is not yet authenticated
	keepAlive  sshclient.Pace
}

// New makes a service that runs its commands by r.
func New(cfg Config, r Runner) (*Server, error) {
	host, err := ssh.ParsePrivateKey(cfg.HostKey)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH host key: %w", err)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	keys, err := parseAuthorizedKeys(cfg.AuthorizedKeys, logger)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{
		Config:                  mpi.SSHAlgorithms(),
		PublicKeyAuthAlgorithms: keys.algorithms(),
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, keys.admit(key, cfg.Admit)
		},
		ServerVersion: "SSH-2.0-Gangline",
	}
	config.AddHostKey(host)
	return &Server{
		config:     config,
		runner:     r,
		subsystems: cfg.Subsystems,
		peers:      cfg.Peers,
		logger:     logger,
		lobby:      make(chan struct{}, maxUnauthenticated),
		keepAlive:  sshclient.DefaultPace(),
	}, nil
}

// Serve serves a listener until the context ends; then it closes the listener,
// ends all commands and returns nil once they have ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel()
	for {
		select {
		case s.lobby <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := l.Accept()
		if err == nil {
			connections.Go(func() { s.serve(ctx, conn) })
			continue
		}
		<-s.lobby
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accepting SSH connections: %w", err)
		}
		s.logger.Warn("accepting an SSH connection failed", "error", err)
		select {
		case <-time.After(acceptRetry):
		case <-ctx.Done():
		}
	}
}

// serve serves one connection until it ends. The caller took its place in the
// lobby.
func (s *Server) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()

	peer, channels, requests, err := s.welcome(conn)
	<-s.lobby
	logger := s.logger.With("client", conn.RemoteAddr().String())
	if err != nil {
		logger.Debug("an SSH client was not let in", "error", err)
		return
	}
	logger.Debug("an SSH client connected", "version", string(peer.ClientVersion()))
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { ssh.DiscardRequests(requests) })
	work.Go(func() { sshclient.KeepAlive(ctx, peer, s.keepAlive) })
	places := make(chan struct{}, maxChannels)
	kinds := map[string]func(context.Context, *slog.Logger, ssh.NewChannel){
		"session": s.session, "direct-tcpip": s.forward,
	}
	for channel := range channels {
		serve, known := kinds[channel.ChannelType()]
		if !known {
			_ = channel.Reject(ssh.UnknownChannelType, "this service has sessions and direct-tcpip only")
			continue
		}
		select {
		case places <- struct{}{}:
			work.Go(func() {
				defer func() { <-places }()
				serve(ctx, logger, channel)
			})
		default:
			_ = channel.Reject(ssh.ResourceShortage, fmt.Sprintf("this connection has %d sessions and ports open already", maxChannels))
		}
	}
}

// welcome does the handshake within its time.
func (s *Server) welcome(conn net.Conn) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	timeout := handshakeTimeout
	if len(s.lobby) > cap(s.lobby)/2 {
		timeout = hurriedTimeout
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, nil, nil, err
	}
	peer, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return nil, nil, nil, err
	}
	return peer, channels, requests, conn.SetDeadline(time.Time{})
}
