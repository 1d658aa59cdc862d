package sshd

import (
	"bytes"
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

// Limits on clients that have not yet shown the key.
const (
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
	// HostKey is the service's private key (OpenSSH PEM).
	HostKey []byte
	// AuthorizedKey is the public key that opens it (an authorized_keys line).
	AuthorizedKey []byte
	// Logger may be nil for none.
	Logger *slog.Logger
}

// Server is the SSH service of one slot.
type Server struct {
	config    *ssh.ServerConfig
	runner    Runner
	logger    *slog.Logger
	lobby     chan struct{} // a place for each connection that is not yet authenticated
	keepAlive sshclient.Pace
}

// New makes a service that runs its commands by r.
func New(cfg Config, r Runner) (*Server, error) {
	host, err := ssh.ParsePrivateKey(cfg.HostKey)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH host key: %w", err)
	}
	client, _, _, _, err := ssh.ParseAuthorizedKey(cfg.AuthorizedKey)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key that is authorized: %w", err)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	config := &ssh.ServerConfig{
		Config:                  mpi.SSHAlgorithms(),
		PublicKeyAuthAlgorithms: []string{client.Type()},
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), client.Marshal()) {
				return nil, errors.New("not the gang's key")
			}
			return nil, nil
		},
		ServerVersion: "SSH-2.0-Gangline",
	}
	config.AddHostKey(host)
	return &Server{
		config:    config,
		runner:    r,
		logger:    logger,
		lobby:     make(chan struct{}, maxUnauthenticated),
		keepAlive: sshclient.DefaultPace(),
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
	for channel := range channels {
		switch channel.ChannelType() {
		case "session":
			work.Go(func() { s.session(ctx, logger, channel) })
		case "direct-tcpip":
			work.Go(func() { forward(ctx, logger, channel) })
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "this service has sessions and direct-tcpip only")
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
