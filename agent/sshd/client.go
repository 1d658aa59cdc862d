package sshd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/gangline/gangline/mpi/sshclient"
)

// Credentials open the services of a gang: the host key to expect and the
// private key to show.
type Credentials = sshclient.Credentials

// Client is a connection to one slot's service. Its methods may be called from
// several goroutines; Close ends it. A peer that has ceased to answer ends it
// too, and everything on it.
type Client struct {
	*sshclient.Client
}

// Dial connects to a service at host:port. The context bounds the attempt only.
func Dial(ctx context.Context, addr string, c Credentials) (*Client, error) {
	client, err := sshclient.Dial(ctx, addr, c)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// DialOver speaks to a service over a connection that exists, for instance one
// through a login node. The connection is the client's from here on.
func DialOver(ctx context.Context, conn net.Conn, c Credentials) (*Client, error) {
	client, err := sshclient.New(ctx, conn, c)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// ExecRequest is what kubectl exec asks for.
type ExecRequest struct {
	// Container is empty for the pod's first one.
	Container string
	Argv      []string
	// PTY is nil for none. With one, Stderr is not used.
	PTY *PTY
	// Any stream may be nil. Stdin may still be read once after Exec returned.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize carries new sizes of the terminal. It may be nil or closed.
	Resize <-chan Size
}

// Exec runs a command in a container and returns its exit status, 128+n where
// signal n ended it. An error says that the command was not run, or that its end
// is not known (sshclient.ErrInterrupted). When the context ends, so does the
// command.
func (c *Client) Exec(ctx context.Context, r ExecRequest) (exitStatus int, err error) {
	if len(r.Argv) == 0 {
		return 0, errors.New("exec: no command is given")
	}
	request, err := json.Marshal(sshclient.Exec{Container: r.Container, Argv: r.Argv})
	if err != nil {
		return 0, fmt.Errorf("encoding the command: %w", err)
	}
	return c.Run(ctx, sshclient.Session{
		Request:  sshclient.RequestExec,
		Argument: string(request),
		PTY:      r.PTY,
		Stdin:    r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
		Resize: r.Resize,
	})
}

// AttachRequest is what kubectl attach asks for.
type AttachRequest struct {
	// Container is one that runs.
	Container string
	// Any stream may be nil. Stdin may still be read once after Attach returned.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize carries sizes of the terminal, if the container has one. It may be nil
	// or closed.
	Resize <-chan Size
}

// Attach joins the streams to a container's own process until that ends, or its
// rules of standard input let the client go. Errors are those of Exec.
func (c *Client) Attach(ctx context.Context, r AttachRequest) error {
	request, err := json.Marshal(sshclient.Exec{Container: r.Container, Attach: &sshclient.Attach{Stdin: r.Stdin != nil}})
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	_, err = c.Run(ctx, sshclient.Session{
		Request:  sshclient.RequestExec,
		Argument: string(request),
		Stdin:    r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
		Resize: r.Resize,
	})
	return err
}
