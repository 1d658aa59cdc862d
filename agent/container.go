package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/attach"
	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

const (
	// codeStartError and reasonStartError say that a container's program could
	// not be started, as containerd does.
	codeStartError   = 128
	reasonStartError = "StartError"

	// sweepTimeout bounds the wait for killed processes.
	sweepTimeout = 30 * time.Second
)

// start begins a run of a container. What becomes of it reaches the slot's
// goroutine as messages.
func (p *pod) start(name string, run int) {
	c, ok := p.container(name)
	if !ok {
		return
	}
	ctx, kill := context.WithCancel(p.slot.ctx)
	e := &execution{ctx: ctx, kill: kill}
	p.vacate(lifecycle.RunID(p.orders.UID, name, p.runs[name]))
	p.current[name], p.runs[name] = e, run
	p.slot.background.Go(func() {
		if p.box != nil {
			p.startInImage(e, c, run)
			return
		}
		p.settleAndRun(e, c, run, func() (*stay, error) { return p.settle(c, run) })
	})
}

// startInImage gets a container's image first.
func (p *pod) startInImage(e *execution, c spool.ContainerOrders, run int) {
	name := c.Name
	img, err := p.bring(e.ctx, c)
	if err != nil {
		e.kill()
		p.slot.post(func() {
			delete(p.current, name)
			p.unpulled(c, err)
		})
		return
	}
	p.slot.post(func() { p.life.Pulled(name, img.ID) })
	p.settleAndRun(e, c, run, func() (*stay, error) { return p.moveIn(c, run, img.Image) })
	p.slot.post(func() { p.leave(c, run) })
	img.release()
}

// settleAndRun is a run of a container, from the look at what it needs.
func (p *pod) settleAndRun(e *execution, c spool.ContainerOrders, run int, settle func() (*stay, error)) {
	s, err := leaveBehind(e.ctx, p.slot, settle, func(*stay) {})
	switch {
	case err == nil:
		c = s.orders
	case e.ctx.Err() != nil:
		err = fmt.Errorf("the container was stopped before all that it mounts had been looked at: %w", err)
	}
	type answer struct {
		recipe sandbox.Recipe
		err    error
	}
	a, askErr := ask(p.slot.ctx, p.slot, func() answer {
		recipe, err := p.settled(c, run, s, err)
		return answer{recipe, err}
	})
	if askErr == nil {
		p.run(e, c, run, a.recipe, a.err)
	}
}

// leaveBehind calls what hangs as long as a shared filesystem does. When the context ends it
// waits for it no more, and what comes of it is undone then.
func leaveBehind[T any](ctx context.Context, s *slot, call func() (T, error), undo func(T)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer)
	s.background.Go(func() {
		value, err := call()
		select {
		case answers <- answer{value, err}:
		case <-ctx.Done():
			if err == nil {
				undo(value)
			}
		}
	})
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return *new(T), context.Cause(ctx)
	}
}

// run is a run of a container, from the start of its process to the end of all that it
// has left; or why there is no recipe for it.
func (p *pod) run(e *execution, c spool.ContainerOrders, run int, recipe sandbox.Recipe, err error) {
	name, ctx := c.Name, e.ctx
	recipe.Argv = c.Argv
	if calledDirectly(c) {
		recipe.Path = sandbox.Self // under that name
	}
	defer e.kill()
	exit, ended := lifecycle.Exit{Code: codeStartError, Reason: reasonStartError}, time.Time{}
	if err == nil {
		exit, ended, err = p.execute(ctx, c, run, recipe, func(proc *process.Process, streams *attach.Console, at time.Time) {
			p.slot.post(func() {
				e.process, e.streams = proc, streams
				p.life.Started(name, at)
				p.slot.wakeSessions()
			})
		})
	}
	if err != nil {
		// It may quote a command line of any length.
		exit.Message, ended = beginning(err.Error(), p.terminationLimit()), time.Now()
		p.logger.Warn("a container did not start", "container", name, "run", run, "error", err)
	}
	p.slot.post(func() {
		delete(p.current, name)
		p.life.Exited(name, ended, exit)
		p.slot.wakeSessions()
		p.logger.Info("ended", "container", name, "run", run, "code", exit.Code)
	})
}

// execute runs a container once, until nothing of it is left. The end of the
// context kills it. An error says why it did not start; the exit then says so too.
func (p *pod) execute(
	ctx context.Context, c spool.ContainerOrders, run int, r sandbox.Recipe, started func(*process.Process, *attach.Console, time.Time),
) (lifecycle.Exit, time.Time, error) {
	failed := lifecycle.Exit{Code: codeStartError, Reason: reasonStartError}
	if len(c.Argv) == 0 {
		return failed, time.Time{}, errors.New("the container has no command")
	}
	termination := terminationFile(p.files.dirs.termination(c.Name))
	if err := termination.reset(); err != nil {
		return failed, time.Time{}, err
	}
	path := p.slot.cfg.Dir.Log(p.slot.index, p.orders.UID, c.Name, run)
	log, err := p.createLog(ctx, path, run)
	if err != nil {
		return failed, time.Time{}, err
	}
	streams, err := attach.Open(attach.Options{
		Stdin: c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY, Dir: p.files.dirs.disk,
	})
	if err != nil {
		return failed, time.Time{}, errors.Join(err, log.Close())
	}
	starved := watchMemory()
	proc, wait, err := p.slot.startLogged(ctx, r, streams, log)
	if err != nil {
		return failed, time.Time{}, errors.Join(err, log.Close())
	}
	defer context.AfterFunc(ctx, func() { _ = proc.Signal(unix.SIGKILL) })()
	started(proc, streams, time.Now())
	defer p.measure(c.Name, run, proc)()
	<-proc.Done()
	ended := time.Now()
	// The mark is a whole entry: the id of a container "a-0" begins with that of
	// a run of "a".
	left := process.Mark{
		Entry:      cookie(lifecycle.RunID(p.orders.UID, c.Name, run)),
		Namespaces: p.slot.namespaces.Of(proc),
	}
	if r.Place != nil {
		left.Namespaces = append(left.Namespaces, r.Place.Namespaces()...)
	}
	if err := p.slot.sweep(left); err != nil {
		p.logger.Error("ending what a container left", "container", c.Name, "run", run, "error", err)
	}
	wait()
	if err := log.Close(); err != nil {
		p.logger.Error("the log is incomplete", "container", c.Name, "run", run, "error", err)
	}
	exit := lifecycle.Exit{Code: process.ExitCode(proc.Status())}
	if exit.Code == codeKilled && ctx.Err() == nil && starved() {
		exit.Reason = wellknown.ReasonOOMKilled
	}
	fallBack := exit.Code != 0 && c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
	if exit.Message, err = termination.message(p.terminationLimit(), fallBack, path); err != nil {
		p.logger.Warn("reading the termination message", "container", c.Name, "run", run, "error", err)
	}
	return exit, ended, nil
}

// starter starts processes that are found again whatever they do to their environment.
func (s *slot) starter() sandbox.Starter {
	return sandbox.Starter{Table: s.table, Started: s.namespaces.Hold, Arrived: s.namespaces.HoldFile}
}

// startLogged starts a process whose output goes to a log. The function that it
// returns waits until the log has all of it.
func (s *slot) startLogged(ctx context.Context, r sandbox.Recipe, streams *attach.Console, log *crilog.Log) (*process.Process, func(), error) {
	starter := s.starter()
	starter.KillGroup = true
	proc, err := starter.Start(ctx, r, streams.Process())
	streams.Started()
	if err != nil {
		streams.Close()
		return nil, nil, err
	}
	faults.At(faults.Started)
	var copying sync.WaitGroup
	copying.Go(func() {
		out, errs := log.Stream(crilog.Stdout), log.Stream(crilog.Stderr)
		defer out.Close()  //nolint:errcheck // the log tells of errors
		defer errs.Close() //nolint:errcheck // as above
		if err := streams.Copy([2]io.Writer{out, errs}, proc.Done()); err != nil {
			s.logger.Error("copying a container's output", "error", err)
		}
	})
	return proc, copying.Wait, nil
}

// sweep ends all processes that have a mark.
func (s *slot) sweep(m process.Mark) error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	return errors.Join(process.Sweep(ctx, m), s.namespaces.ReleaseUnused())
}

// sweepPod ends all processes of a pod. Where the agent has no other slot, what
// is left of its descendants is the pod's too, however it tried to hide.
func (s *slot) sweepPod(uid string) error {
	err := s.sweep(process.Mark{Prefix: cookie(uid + "-"), Namespaces: s.namespaces.All()})
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	err = errors.Join(err, s.steps.wait(ctx)) // their launchers are dead now
	if !s.alone {
		return err
	}
	return errors.Join(err, process.SweepDescendants(ctx))
}
