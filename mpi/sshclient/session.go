package sshclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
)

// ErrInterrupted says that the other side or the connection ended before the
// command's exit status came.
var ErrInterrupted = errors.New("the connection ended before the command did")

// Session is a command on the other side.
type Session struct {
	// Request is "exec", "shell", "subsystem" or RequestExec; Argument is its
	// text, and is empty for "shell".
	Request, Argument string
	// Env holds NAME=value entries. What the service does not take is dropped,
	// as SSH does.
	Env []string
	// PTY asks for a terminal; standard error then comes on Stdout.
	PTY *PTY
	// Stdin may be nil for none. The command's end does not wait for it, so a
	// read of it may outlive Run.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize carries new sizes of the terminal, Signals names without SIG
	// ("TERM"). Both may be nil, and may be closed.
	Resize  <-chan Size
	Signals <-chan string
}

// Run runs a command and returns its exit status. When the context ends, the
// other side is told to end the command, and Run returns the context's error.
func (c *Client) Run(ctx context.Context, s Session) (exitStatus int, err error) {
	channel, requests, err := c.open(ctx, "session", nil)
	if err != nil {
		return 0, fmt.Errorf("opening an SSH session: %w", err)
	}
	defer channel.Close()
	if err := s.start(channel); err != nil {
		go ssh.DiscardRequests(requests)
		return 0, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go s.feed(channel)
	go s.steer(channel, ended)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.collect(channel)
	}()

	exitStatus, err = outcome(ctx, requests)
	select {
	case <-written:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		go ssh.DiscardRequests(requests)
		return 0, fmt.Errorf("running a command over SSH: %w", ctx.Err())
	}
	return exitStatus, err
}

// start sends what precedes the command, then the command.
func (s Session) start(channel ssh.Channel) error {
	for _, entry := range s.Env {
		name, value, _ := strings.Cut(entry, "=")
		if _, err := channel.SendRequest("env", false, ssh.Marshal(SetEnv{name, value})); err != nil {
			return fmt.Errorf("sending the environment over SSH: %w", err)
		}
	}
	if s.PTY != nil {
		request := PTYRequest{Term: s.PTY.Term, Columns: uint32(s.PTY.Columns), Rows: uint32(s.PTY.Rows), Modes: "\x00"}
		ok, err := channel.SendRequest("pty-req", true, ssh.Marshal(request))
		if err != nil {
			return fmt.Errorf("asking for a terminal over SSH: %w", err)
		}
		if !ok {
			return errors.New("the SSH service gave no terminal")
		}
	}
	var payload []byte
	if s.Request != "shell" {
		payload = ssh.Marshal(Text{s.Argument})
	}
	ok, err := channel.SendRequest(s.Request, true, payload)
	if err != nil {
		return fmt.Errorf("starting a command over SSH: %w", err)
	}
	if !ok {
		return fmt.Errorf("the SSH service refused the request %s %s", s.Request, s.Argument)
	}
	return nil
}

// feed sends standard input, then its end. An error ends it just so: a command
// that ends need not have read everything.
func (s Session) feed(channel ssh.Channel) {
	if s.Stdin != nil {
		_, _ = io.Copy(channel, s.Stdin)
	}
	_ = channel.CloseWrite()
}

// steer passes on what happens beside the streams, until the session ends.
func (s Session) steer(channel ssh.Channel, ended <-chan struct{}) {
	resize, signals := s.Resize, s.Signals
	for resize != nil || signals != nil {
		var err error
		select {
		case <-ended:
			return
		case size, ok := <-resize:
			if !ok {
				resize = nil
				continue
			}
			change := WindowChange{Columns: uint32(size.Columns), Rows: uint32(size.Rows)}
			_, err = channel.SendRequest("window-change", false, ssh.Marshal(change))
		case name, ok := <-signals:
			if !ok {
				signals = nil
				continue
			}
			_, err = channel.SendRequest("signal", false, ssh.Marshal(Text{name}))
		}
		if err != nil {
			return
		}
	}
}

// collect writes the command's output until it ends. Where our own writer fails
// the rest is still read, lest the command block.
func (s Session) collect(channel ssh.Channel) {
	drain := func(to io.Writer, from io.Reader) {
		if to != nil {
			_, _ = io.Copy(to, from)
		}
		_, _ = io.Copy(io.Discard, from)
	}
	var both sync.WaitGroup
	both.Go(func() { drain(s.Stdout, channel) })
	both.Go(func() { drain(s.Stderr, channel.Stderr()) })
	both.Wait()
}

// outcome reads the channel's requests until it is closed.
func outcome(ctx context.Context, requests <-chan *ssh.Request) (exitStatus int, err error) {
	err = ErrInterrupted
	for {
		var request *ssh.Request
		var ok bool
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case request, ok = <-requests:
			if !ok {
				return exitStatus, err
			}
		}
		switch request.Type {
		case "exit-status":
			var m ExitStatus
			if err = ssh.Unmarshal(request.Payload, &m); err == nil {
				exitStatus = int(m.Status)
			}
		case RequestError:
			var m Text
			if err = ssh.Unmarshal(request.Payload, &m); err == nil {
				err = errors.New(m.Value)
			}
		}
		if request.WantReply {
			_ = request.Reply(false, nil)
		}
	}
}
