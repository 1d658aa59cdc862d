package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// hangUpGrace is what the processes of a session get to end when the client has
// gone, between SIGTERM and SIGKILL.
const hangUpGrace = 2 * time.Second

var _ sshd.Runner = (*slot)(nil)

// serveSSH starts the slot's SSH service with the first orders that hold its
// keys. All pods of an allocation have the same.
func (s *slot) serveSSH(keys spool.SSH) error {
	if s.ssh != nil {
		return nil
	}
	server, err := sshd.New(sshd.Config{
		HostKey: keys.HostKey, AuthorizedKey: keys.ClientPublicKey, Logger: s.logger,
	}, s)
	if err != nil {
		return &podError{wellknown.ReasonInvalidOrders, err}
	}
	s.ssh = server
	s.background.Go(func() {
		if err := server.Serve(s.ctx, s.listener); err != nil {
			s.post(func() { s.failure = err })
		}
	})
	return nil
}

// Run runs a command for an SSH session in the surroundings of one of the pod's
// containers, whether that runs or not: a worker's SSH service must not depend
// on the worker's own command. It waits for a pod that is still to come.
func (s *slot) Run(ctx context.Context, c sshd.Command) (int, error) {
	recipe, err := s.sessionRecipe(ctx, c)
	if err != nil {
		return 0, err
	}
	recipe.Env = override(recipe.Env, c.Env...)
	var session session
	if c.PTY != nil {
		recipe.Env = override(recipe.Env, "TERM="+c.PTY.Term)
		session, err = openTerminal(c)
	} else {
		session, err = openPipes(c)
	}
	if err != nil {
		return 0, fmt.Errorf("opening the session: %w", err)
	}
	defer session.close()
	starter := sandbox.Starter{Table: s.table, Started: s.namespaces.Hold}
	proc, err := starter.Start(ctx, recipe, session.streams)
	if err := session.started(); err != nil {
		s.logger.Warn("starting a session", "error", err)
	}
	if err != nil {
		return 0, err
	}
	s.logger.Debug("a session began", "container", c.Container)
	go control(ctx, proc, c, session.resize)
	session.copyOutput(proc.Done())
	<-proc.Done()
	if err := s.namespaces.ReleaseUnused(); err != nil {
		s.logger.Warn("ending a session", "error", err)
	}
	return process.ExitCode(proc.Status()), nil
}

// sessionRecipe asks the slot's goroutine for the surroundings of a session.
func (s *slot) sessionRecipe(ctx context.Context, c sshd.Command) (sandbox.Recipe, error) {
	type answer struct {
		recipe sandbox.Recipe
		err    error
		wait   <-chan struct{} // ask again then
	}
	for {
		answers := make(chan answer, 1)
		s.post(func() {
			recipe, err := s.surroundSession(c)
			answers <- answer{recipe, err, s.changed}
		})
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			return sandbox.Recipe{}, ctx.Err()
		case <-s.ctx.Done():
			return sandbox.Recipe{}, errors.New("the slot is being given back")
		}
		if !errors.Is(a.err, errNotYet) {
			return a.recipe, a.err
		}
		select {
		case <-a.wait:
		case <-ctx.Done():
		}
	}
}

// errNotYet says that the slot's pod is still to come.
var errNotYet = errors.New("the pod is not running yet")

func (s *slot) surroundSession(c sshd.Command) (sandbox.Recipe, error) {
	switch {
	case s.pod == nil && s.finished[s.desired.PodUID]:
		return sandbox.Recipe{}, errors.New("the pod has ended")
	case s.pod == nil, !s.pod.up():
		return sandbox.Recipe{}, errNotYet
	}
	name := c.Container
	if name == "" {
		name = s.pod.orders.Containers[0].Name
	}
	container, ok := s.pod.container(name)
	if !ok {
		return sandbox.Recipe{}, fmt.Errorf("the pod has no container %q", name)
	}
	r, err := s.pod.recipe(container, s.pod.runs[name])
	if err != nil {
		return r, err
	}
	switch {
	case len(c.Argv) > 0:
		r.Argv = c.Argv
		return r, nil
	case c.Line != "":
		r.Path, r.Argv = "/bin/sh", []string{"sh", "-c", c.Line}
	default:
		r.Path, r.Argv = loginShell()
	}
	if r.Dir == "" && isDir(s.cfg.Home) {
		r.Dir = s.cfg.Home // where a login begins
	}
	return r, nil
}

func loginShell() (path string, argv []string) {
	const bash = "/bin/bash"
	if _, err := os.Stat(bash); err == nil {
		return bash, []string{"-bash"}
	}
	return "/bin/sh", []string{"-sh"}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// wakeSessions makes those ask again that wait for a pod.
func (s *slot) wakeSessions() {
	close(s.changed)
	s.changed = make(chan struct{})
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

// session connects a process to its client.
type session struct {
	streams sandbox.Streams
	// started lets go of the process's own ends, once it has them.
	started func() error
	// copyOutput copies until the output is complete.
	copyOutput func(ended <-chan struct{})
	resize     func(sshd.Size)
	close      func()
}

// openPipes connects a session without a terminal.
func openPipes(c sshd.Command) (session, error) {
	var pipes [3]struct{ r, w *os.File }
	for i := range pipes {
		var err error
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			for _, p := range pipes[:i] {
				err = errors.Join(err, p.r.Close(), p.w.Close())
			}
			return session{}, err
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
	return session{
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
func openTerminal(c sshd.Command) (session, error) {
	master, terminal, err := pty.Open()
	if err != nil {
		return session{}, err
	}
	resize := func(s sshd.Size) { _ = pty.Setsize(master, &pty.Winsize{Cols: s.Columns, Rows: s.Rows}) }
	resize(c.PTY.Size)
	go func() {
		if c.Stdin != nil {
			_, _ = io.Copy(master, c.Stdin)
		}
	}()
	return session{
		streams: sandbox.Streams{Stdin: terminal, Stdout: terminal, Stderr: terminal, Terminal: true},
		started: terminal.Close,
		copyOutput: func(ended <-chan struct{}) {
			// It ends with EIO when no process has the terminal any more.
			_ = process.CopyOutput(orDiscard(c.Stdout), master, ended, quiet)
		},
		resize: resize,
		close:  func() { _ = master.Close() },
	}, nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
