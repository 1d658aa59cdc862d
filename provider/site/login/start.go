package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/provider/site/gateway"
)

// subcommand is gangline-agent's that is a gateway.
const subcommand = "gateway"

var _ gateway.Start = (*Login)(nil).Start

// Start starts a gateway on the login node. It connects and brings the agent there if
// need be.
func (l *Login) Start(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := l.connected(ctx)
	if err != nil {
		return nil, err
	}
	p, err := l.start(ctx, c)
	if err != nil && ctx.Err() != nil {
		l.drop(c, err) // it does not answer
	}
	return p, err
}

func (l *Login) start(ctx context.Context, c *connection) (io.ReadWriteCloser, error) {
	agent, err := l.ensureAgent(ctx, c)
	if err != nil {
		return nil, err
	}
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{login: l, conn: c, session: session, agent: agent, ended: make(chan struct{})}
	p.words.Log = l.config.Log
	session.Stderr = &p.words
	in, err := session.StdinPipe()
	if err == nil {
		p.in = in
		p.Reader, err = session.StdoutPipe()
	}
	if err == nil {
		err = session.Start("exec " + agent + " " + subcommand)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a gateway on the login node %s: %w", l.config.Address, err), session.Close())
	}
	go func() {
		p.err = session.Wait()
		close(p.ended)
	}()
	return p, nil
}

// process is a gateway on the login node.
type process struct {
	io.Reader
	login   *Login
	conn    *connection
	session *ssh.Session
	agent   string
	in      io.WriteCloser
	words   gateway.Words
	ended   chan struct{}
	err     error // how it ended, once it has
}

func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the gateway by the end of its input, which the end of the session is. It
// may have to wait for a locked command, and must not be killed meanwhile. (The
// library cannot end the input alone while something is being written.)
func (p *process) Close() error { return ignoreEOF(p.session.Close()) }

// ignoreEOF is for what has been closed by the other side already.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// The exit statuses by which a shell says that it could not run a program (POSIX).
const (
	cannotExecute = 126
	notFound      = 127
)

// Cause explains why the gateway has ended.
func (p *process) Cause(err error) error {
	select {
	case <-p.ended:
	case <-time.After(endWithin):
		return fmt.Errorf("the gateway on the login node %s has closed its stream: %w", p.login.config.Address, err)
	}
	switch status(p.err) {
	case cannotExecute:
		return fmt.Errorf("%s cannot be executed on the login node %s: %s; is that filesystem mounted noexec? Choose another agentDir",
			p.agent, p.login.config.Address, p.words.String())
	case notFound:
		p.login.forgetAgent(p.conn)
		return fmt.Errorf("%s has gone from the login node %s; it will be put there again", p.agent, p.login.config.Address)
	case -1:
		if _, lost := p.login.current(); lost != nil {
			return fmt.Errorf("the login node %s: %w", p.login.config.Address, lost)
		}
	}
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	if words := p.words.String(); words != "" {
		how += ": " + words
	}
	return fmt.Errorf("the gateway of %s on the login node %s has ended (%s)", p.login.config.User, p.login.config.Address, how)
}

// forgetAgent has the agent looked for again. A login node that says that it has none
// is not making one.
func (l *Login) forgetAgent(c *connection) {
	l.making <- struct{}{}
	defer l.release()
	c.agent = ""
}
