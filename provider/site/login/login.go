package login

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
)

// Login is a login node as one user reaches it. It has one connection at most, which
// Start makes anew when there is none.
type Login struct {
	config Config
	pins   pins
	hashes *hashes

	// making is held, by a value in it, while a connection is made or the agent is put
	// in place.
	making chan struct{}

	mu   sync.Mutex
	conn *connection // nil while there is none
	err  error       // why the last has ended or could not be made
}

var _ site.Dialer = (*Login)(nil)

// connection is one SSH connection.
type connection struct {
	*ssh.Client
	stop context.CancelFunc // of the keep-alive
	// agent is the program's path on the login node, once it is there.
	agent string
}

func (c *connection) close() {
	c.stop()
	_ = c.Client.Close() // it has ended, or ends by this
}

// Close ends the connection. Start makes another.
func (l *Login) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.close()
		l.conn, l.err = nil, net.ErrClosed
	}
	return nil
}

func (l *Login) current() (*connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn, l.err
}

// hold waits until nobody else makes anything, or ctx ends.
func (l *Login) hold(ctx context.Context) error {
	select {
	case l.making <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the login node %s: %w", l.config.Address, context.Cause(ctx))
	}
}

func (l *Login) release() { <-l.making }

// connected is the connection, made if there is none.
func (l *Login) connected(ctx context.Context) (*connection, error) {
	if err := l.hold(ctx); err != nil {
		return nil, err
	}
	defer l.release()
	if c, _ := l.current(); c != nil {
		return c, nil
	}
	c, err := l.connect(ctx)
	l.mu.Lock()
	l.conn, l.err = c, err
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	l.config.Log.Info("connected to the login node", "address", l.config.Address, "user", l.config.User)
	go func() {
		err := c.Wait()
		l.drop(c, fmt.Errorf("the connection has ended: %w", err))
	}()
	return c, nil
}

// drop forgets a connection that has ended or does not answer.
func (l *Login) drop(c *connection, err error) {
	c.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == c {
		l.conn, l.err = nil, err
	}
}

func (l *Login) connect(ctx context.Context) (*connection, error) {
	id, err := l.config.identity(time.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.ConnectTimeout)
	defer cancel()
	stream, err := new(net.Dialer).DialContext(ctx, "tcp", l.config.Address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the login node %s: %w", l.config.Address, err)
	}
	hangUp := context.AfterFunc(ctx, func() { stream.Close() })
	conn, channels, requests, err := ssh.NewClientConn(stream, l.config.Address, &ssh.ClientConfig{
		User: l.config.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(id.signer)},
		HostKeyCallback: l.pins.check, HostKeyAlgorithms: l.pins.algorithms(),
	})
	if !hangUp() { // the context ended first, and took the connection with it
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		stream.Close()
		return nil, l.explain(err, id)
	}
	alive, stop := context.WithCancel(context.Background())
	go sshclient.KeepAlive(alive, conn, l.config.Pace)
	return &connection{Client: ssh.NewClient(conn, channels, requests), stop: stop}, nil
}

// explain says what a failed handshake is about. The library has no types for it.
func (l *Login) explain(err error, id identity) error {
	if wrong, ok := errors.AsType[*HostKeyError](err); ok {
		return &gateway.LastingError{Err: wrong}
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "unable to authenticate"):
		return &gateway.LastingError{Err: fmt.Errorf(
			"the login node %s does not let %s in with %s: is its public half in that user's authorized_keys, and may that user log in by key? (%w)",
			l.config.Address, l.config.User, id.words, err)}
	case strings.Contains(text, "no common algorithm for host key"):
		return fmt.Errorf("the login node %s has no host key of a pinned type (%s): add one that it has to knownHosts (%w)",
			l.config.Address, strings.Join(l.pins.describe(), ", "), err)
	}
	return fmt.Errorf("logging in to %s as %s: %w", l.config.Address, l.config.User, err)
}
