package sshclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi"
)

const (
	// user is sent because the protocol wants one. A service takes any.
	user = "gangline"
	// handshakeTimeout bounds a handshake whose context has no end.
	handshakeTimeout = 30 * time.Second
)

// Credentials open the SSH services of a gang.
type Credentials struct {
	// HostPublicKey is the key that the service must prove to have, as an
	// authorized_keys line.
	HostPublicKey []byte
	// ClientKey is the private key to show (OpenSSH PEM).
	ClientKey []byte
}

// Client is a connection to one SSH service. Its methods may be called from
// several goroutines.
type Client struct {
	conn *ssh.Client
	stop context.CancelFunc
}

// Dial connects to host:port. The context bounds the attempt, not the
// connection. A peer that does not answer or has gone is a net.Error or io.EOF; a
// peer with the wrong key, or that refuses ours, is neither.
func Dial(ctx context.Context, addr string, c Credentials) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to the SSH service: %w", err)
	}
	return New(ctx, conn, c)
}

// New speaks SSH on a connection that exists, for instance one through a login
// node. The connection is the client's from here on, also after an error.
func New(ctx context.Context, conn net.Conn, c Credentials) (*Client, error) {
	config, err := c.config()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	hangUp := context.AfterFunc(ctx, func() { conn.Close() })
	addr := conn.RemoteAddr().String()
	peer, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if !hangUp() { // the context ended first, and took the connection with it
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("speaking to the SSH service at %s: %w", addr, err)
	}
	alive, stop := context.WithCancel(context.Background())
	go KeepAlive(alive, peer, DefaultPace())
	return &Client{conn: ssh.NewClient(peer, channels, requests), stop: stop}, nil
}

// Close ends the connection and every command and port on it.
func (c *Client) Close() error {
	c.stop()
	if err := c.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing the connection to the SSH service: %w", err)
	}
	return nil
}

func (c Credentials) config() (*ssh.ClientConfig, error) {
	host, _, _, _, err := ssh.ParseAuthorizedKey(c.HostPublicKey)
	if err != nil {
		return nil, fmt.Errorf("reading the gang's SSH host key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(c.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("reading the gang's SSH client key: %w", err)
	}
	return &ssh.ClientConfig{
		Config:            mpi.SSHAlgorithms(),
		User:              user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback:   ssh.FixedHostKey(host),
		HostKeyAlgorithms: []string{host.Type()},
	}, nil
}

// open opens a channel; unlike the connection's own method it heeds a context.
func (c *Client) open(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	type opened struct {
		channel  ssh.Channel
		requests <-chan *ssh.Request
		err      error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		o.channel, o.requests, o.err = c.conn.OpenChannel(kind, payload)
		done <- o
	}()
	select {
	case o := <-done:
		return o.channel, o.requests, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				o.channel.Close()
				ssh.DiscardRequests(o.requests)
			}
		}()
		return nil, nil, ctx.Err()
	}
}
