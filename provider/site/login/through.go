package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
)

// DialContext reaches an HPC node through the login node: by its sshd, or, where that
// forbids it, by an agent there for each connection. It makes no connection to the
// login node: while there is none, it fails at once.
func (l *Login) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := l.current()
	if c == nil {
		if err == nil {
			err = errors.New("not connected yet")
		}
		return nil, fmt.Errorf("%w: the login node %s: %v", site.ErrUnreachable, l.config.Address, err)
	}
	conn, err := c.DialContext(ctx, network, address)
	if err == nil {
		return through{conn, address}, nil
	}
	refused, ok := errors.AsType[*ssh.OpenChannelError](err)
	if !ok {
		return nil, fmt.Errorf("reaching %s through the login node %s: %w", address, l.config.Address, err)
	}
	if refused.Reason != ssh.Prohibited {
		return nil, fmt.Errorf("the login node %s cannot reach %s: %w", l.config.Address, address, err)
	}
	conn, failed := l.byAgent(ctx, c, address)
	if failed != nil {
		return nil, fmt.Errorf("the login node %s forbids to reach %s through it (AllowTcpForwarding, PermitOpen in its sshd_config: %w), and so it went with the agent there: %w",
			l.config.Address, address, err, failed)
	}
	return conn, nil
}

// through is a connection that knows where it leads to.
type through struct {
	net.Conn
	address string
}

func (t through) RemoteAddr() net.Addr { return target(t.address) }

type target string

func (t target) Network() string { return "tcp" }
func (t target) String() string  { return string(t) }

// plainAddress is an address in which no shell sees anything but one.
var plainAddress = regexp.MustCompile(`^[A-Za-z0-9.:_-]+$`)

// byAgent has an agent on the login node connect, which lives as long as the
// connection.
func (l *Login) byAgent(ctx context.Context, c *connection, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !plainAddress.MatchString(host) || !plainAddress.MatchString(port) {
		return nil, fmt.Errorf("%q is no address", address)
	}
	agent, err := l.ensureAgent(ctx, c)
	if err != nil {
		return nil, err
	}
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	hangUp := context.AfterFunc(ctx, func() { _ = session.Close() })
	conn := &agentConn{session: session, address: address}
	session.Stderr = &conn.words
	conn.WriteCloser, err = session.StdinPipe()
	var out io.Reader
	if err == nil {
		out, err = session.StdoutPipe()
	}
	if err == nil {
		err = session.Start("exec " + agent + " " + subcommand + " --connect-host " + host + " --connect-port " + port)
	}
	if err == nil {
		if conn.in, err = gateway.Greeted(out); err != nil {
			_ = session.Wait() // for its words
			err = fmt.Errorf("%s (%w)", conn.words.String(), err)
		}
	}
	if !hangUp() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, errors.Join(err, ignoreEOF(session.Close()))
	}
	return conn, nil
}

// agentConn is a connection that an agent on the login node has made.
type agentConn struct {
	io.WriteCloser // its end is that of our direction
	in             io.Reader
	session        *ssh.Session
	words          gateway.Words
	address        string
}

var _ net.Conn = (*agentConn)(nil)

func (a *agentConn) Read(p []byte) (int, error) { return a.in.Read(p) }
func (a *agentConn) Close() error               { return ignoreEOF(a.session.Close()) }
func (a *agentConn) CloseWrite() error          { return a.WriteCloser.Close() }
func (a *agentConn) LocalAddr() net.Addr        { return target("") }
func (a *agentConn) RemoteAddr() net.Addr       { return target(a.address) }

// errNoDeadline is what connections through sshd say as well.
var errNoDeadline = errors.New("a connection through a login node has no deadlines")

func (a *agentConn) SetDeadline(time.Time) error      { return errNoDeadline }
func (a *agentConn) SetReadDeadline(time.Time) error  { return errNoDeadline }
func (a *agentConn) SetWriteDeadline(time.Time) error { return errNoDeadline }
