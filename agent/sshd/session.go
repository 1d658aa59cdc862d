package sshd

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi/sshclient"
)

const (
	// exitUnstarted is the exit status of a command that could not be started,
	// the one that ssh uses for failures of its own.
	exitUnstarted = 255
	// queuedSignals is the number of signals that may wait for the Runner.
	queuedSignals = 16
)

// session is one channel of the type "session": a command as far as the client
// has described it, and then the command that runs.
type session struct {
	runner     Runner
	subsystems []string
	logger     *slog.Logger
	channel    ssh.Channel
	command    Command
	resize     chan Size
	signals    chan string
	// own tells that the client asked by our own request, and so understands
	// our own answer.
	own bool
	// ended is nil until the command was started and closed when it has ended.
	ended chan struct{}
}

// session serves one session until its channel is closed and its command ended.
func (s *Server) session(ctx context.Context, logger *slog.Logger, opened ssh.NewChannel) {
	channel, requests, err := opened.Accept()
	if err != nil {
		return
	}
	n := &session{
		runner: s.runner, subsystems: s.subsystems, logger: logger, channel: channel,
		resize: make(chan Size, 1), signals: make(chan string, queuedSignals),
	}
	ctx, cancel := context.WithCancel(ctx)
	for request := range requests {
		ok, start := n.handle(request)
		if request.WantReply {
			_ = request.Reply(ok, nil)
		}
		if start {
			n.start(ctx)
		}
	}
	// The requests end with the channel: the command has ended or the client
	// has gone.
	cancel()
	if n.ended != nil {
		<-n.ended
	}
}

// handle takes in one request. It reports whether it was understood and granted,
// and whether the command is to start now.
func (n *session) handle(request *ssh.Request) (ok, start bool) {
	switch request.Type {
	case "env":
		var m sshclient.SetEnv
		return n.read(request, &m) && n.setEnv(m.Name, m.Value), false
	case "pty-req":
		var m sshclient.PTYRequest
		if n.ended != nil || !n.read(request, &m) {
			return false, false
		}
		n.command.PTY = &PTY{Term: m.Term, Size: size(m.Columns, m.Rows)}
		return true, false
	case "window-change":
		var m sshclient.WindowChange
		if !n.read(request, &m) {
			return false, false
		}
		n.resized(size(m.Columns, m.Rows))
		return true, false
	case "signal":
		var m sshclient.Text
		return n.read(request, &m) && n.signal(m.Value), false
	case "shell", "exec", "subsystem", sshclient.RequestExec:
		ok := n.ended == nil && n.describe(request)
		return ok, ok
	}
	n.logger.Debug("an SSH request was refused", "request", request.Type)
	return false, false
}

// describe fills in what the client wants to run.
func (n *session) describe(request *ssh.Request) bool {
	if request.Type == "shell" {
		return true
	}
	var m sshclient.Text
	if !n.read(request, &m) {
		return false
	}
	switch request.Type {
	case "exec":
		n.command.Line = m.Value
		return m.Value != ""
	case "subsystem":
		n.command.Subsystem = m.Value
		return slices.Contains(n.subsystems, m.Value)
	}
	var exec sshclient.Exec
	if err := json.Unmarshal([]byte(m.Value), &exec); err != nil || len(exec.Argv) == 0 && exec.Attach == nil {
		n.logger.Warn("an SSH request was not understood", "request", request.Type, "error", err)
		return false
	}
	n.own = true
	n.command.Container, n.command.Argv, n.command.Attach = exec.Container, exec.Argv, exec.Attach
	return true
}

// start runs the command beside the requests, which go on.
func (n *session) start(ctx context.Context) {
	n.ended = make(chan struct{})
	c := n.command
	c.Stdin, c.Stdout, c.Stderr = n.channel, n.channel, n.channel.Stderr()
	c.Resize, c.Signals = n.resize, n.signals
	go func() {
		defer close(n.ended)
		exitStatus, err := n.runner.Run(ctx, c)
		if err != nil && ctx.Err() == nil {
			n.logger.Warn("a command could not be started over SSH", "container", c.Container, "error", err)
		}
		n.finish(exitStatus, err)
	}()
}

// finish sends how the command ended. An exit status is sent even where a signal
// ended it (128+n): ssh turns an exit-signal into 255, and nobody would learn
// the signal's number. It goes before the end of the output, as sshd mostly does:
// OpenSSH's shared connections sometimes lose one that comes after. Whoever has
// gone gets nothing, so errors are not looked at.
func (n *session) finish(exitStatus int, err error) {
	defer n.channel.Close()
	request, payload := "exit-status", ssh.Marshal(sshclient.ExitStatus{Status: uint32(exitStatus)})
	switch {
	case err != nil && n.own:
		request, payload = sshclient.RequestError, ssh.Marshal(sshclient.Text{Value: err.Error()})
	case err != nil:
		_, _ = io.WriteString(n.channel.Stderr(), "gangline: "+err.Error()+"\n")
		payload = ssh.Marshal(sshclient.ExitStatus{Status: exitUnstarted})
	}
	_, _ = n.channel.SendRequest(request, false, payload)
	_ = n.channel.CloseWrite()
}

// resized keeps the newest size only.
func (n *session) resized(s Size) {
	select {
	case <-n.resize:
	default:
	}
	n.resize <- s
}

func (n *session) signal(name string) bool {
	select {
	case n.signals <- name:
		return true
	default:
		n.logger.Warn("a signal sent over SSH was dropped: too many wait", "signal", name)
		return false
	}
}

func (n *session) read(request *ssh.Request, message any) bool {
	if err := ssh.Unmarshal(request.Payload, message); err != nil {
		n.logger.Warn("an SSH request was not understood", "request", request.Type, "error", err)
		return false
	}
	return true
}

func size(columns, rows uint32) Size {
	return Size{Columns: uint16(min(columns, 1<<16-1)), Rows: uint16(min(rows, 1<<16-1))}
}
