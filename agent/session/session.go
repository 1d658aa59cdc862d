package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/terminal"
)

const (
	// hangUpGrace is what the processes of a session get to end when the client
	// has gone, between SIGTERM and SIGKILL.
	hangUpGrace = 2 * time.Second
	// quiet is how long the output may be silent, after the process's end, before
	// it is taken to be complete.
	quiet = 500 * time.Millisecond
)

// Run starts the recipe's process with the client's variables, terminal and
// streams, and returns its exit status once it has ended and its output is
// written. An error says why it was not started. See sshd.Runner.
func Run(ctx context.Context, starter sandbox.Starter, recipe sandbox.Recipe, c sshd.Command) (int, error) {
	recipe.Env = override(recipe.Env, c.Env...)
	open := openPipes
	if c.PTY != nil {
		recipe.Env = override(recipe.Env, "TERM="+c.PTY.Term)
		open = openTerminal
	}
	client, err := open(c)
	if err != nil {
		return 0, fmt.Errorf("opening the session: %w", err)
	}
	defer client.close()
	proc, err := starter.Start(ctx, recipe, client.streams)
	_ = client.started() // closing our duplicates of the process's own ends
	if err != nil {
		return 0, err
	}
	go control(ctx, proc, c, client.resize)
	client.copyOutput(proc.Done())
	<-proc.Done()
	return process.ExitCode(proc.Status()), nil
}

// control passes signals and sizes on until the process ends, and ends its group
// when the client has gone before.
func control(ctx context.Context, p *process.Process, c sshd.Command, resize func(sshd.Size)) {
	for {
		select {
		case <-p.Done():
			return
		case size := <-c.Resize:
			resize(size)
		case name := <-c.Signals:
			if sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); sig != 0 {
				_ = p.Signal(sig)
			}
		case <-ctx.Done():
			p.EndGroup() // some of it may not heed the signal that ends the first
			_ = p.Signal(unix.SIGTERM)
			select {
			case <-p.Done():
			case <-time.After(hangUpGrace):
				_ = p.Signal(unix.SIGKILL)
			}
			return
		}
	}
}

// connection connects a process to its client.
type connection struct {
	streams sandbox.Streams
	// started lets go of the process's own ends, once it has them.
	started func() error
	// copyOutput copies until the output is complete.
	copyOutput func(ended <-chan struct{})
	resize     func(sshd.Size)
	close      func()
}

// openPipes connects a session without a terminal.
func openPipes(c sshd.Command) (connection, error) {
	var pipes [3]struct{ r, w *os.File }
	for i := range pipes {
		var err error
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			for _, p := range pipes[:i] {
				err = errors.Join(err, p.r.Close(), p.w.Close())
			}
			return connection{}, err
		}
	}
	in, out, errs := pipes[0], pipes[1], pipes[2]
	// It may wait for the client longer than the process lives; closing the
	// pipe ends it at its next write.
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(in.w, c.Stdin)
		}
		_ = in.w.Close()
	}()
	return connection{
		streams: sandbox.Streams{Stdin: in.r, Stdout: out.w, Stderr: errs.w},
		started: func() error { return errors.Join(in.r.Close(), out.w.Close(), errs.w.Close()) },
		copyOutput: func(ended <-chan struct{}) {
			var copying sync.WaitGroup
			copying.Go(func() { _ = process.CopyOutput(orDiscard(c.Stdout), out.r, ended, quiet) })
			copying.Go(func() { _ = process.CopyOutput(orDiscard(c.Stderr), errs.r, ended, quiet) })
			copying.Wait()
		},
		resize: func(sshd.Size) {},
		close: func() {
			for _, f := range []*os.File{in.w, out.r, errs.r} {
				_ = f.Close()
			}
		},
	}, nil
}

// openTerminal connects a session by a pseudoterminal.
func openTerminal(c sshd.Command) (connection, error) {
	term, err := terminal.Open()
	if err != nil {
		return connection{}, err
	}
	resize := func(s sshd.Size) { _ = term.Resize(s.Columns, s.Rows) }
	resize(c.PTY.Size)
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(term.Master, c.Stdin)
		}
	}()
	return connection{
		streams: sandbox.Streams{Stdin: term.Program, Stdout: term.Program, Stderr: term.Program, Terminal: true},
		started: term.Program.Close,
		copyOutput: func(ended <-chan struct{}) {
			// It ends with EIO when no process has the terminal any more.
			_ = process.CopyOutput(orDiscard(c.Stdout), term.Master, ended, quiet)
		},
		resize: resize,
		close:  func() { _ = term.Close() },
	}, nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
