package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
)

const (
	// codeStartError and reasonStartError say that a container's program could
	// not be started, as containerd does.
	codeStartError   = 128
	reasonStartError = "StartError"

	// quiet is how long a run's output may be silent, after its end, before it
	// is taken to be complete.
	quiet = 500 * time.Millisecond
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
	p.current[name], p.runs[name] = e, run
	recipe, err := p.recipe(c, run)
	recipe.Argv = c.Argv
	if calledDirectly(c) {
		recipe.Path = sandbox.Self // under that name
	}
	p.slot.background.Go(func() {
		defer kill()
		exit, ended := lifecycle.Exit{Code: codeStartError, Reason: reasonStartError}, time.Time{}
		if err == nil {
			exit, ended, err = p.execute(ctx, c, run, recipe, func(proc *process.Process, at time.Time) {
				p.slot.post(func() {
					e.process = proc
					p.life.Started(name, at)
				})
			})
		}
		if err != nil {
			exit.Message, ended = err.Error(), time.Now()
			p.logger.Warn("a container did not start", "container", name, "run", run, "error", err)
		}
		p.slot.post(func() {
			delete(p.current, name)
			p.life.Exited(name, ended, exit)
			p.logger.Info("ended", "container", name, "run", run, "code", exit.Code)
		})
	})
}

// execute runs a container once, until nothing of it is left. The end of the
// context kills it. An error says why it did not start; the exit then says so too.
func (p *pod) execute(
	ctx context.Context, c spool.ContainerOrders, run int, r sandbox.Recipe, started func(*process.Process, time.Time),
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
	log, err := crilog.Create(path)
	if err != nil {
		return failed, time.Time{}, err
	}
	proc, wait, err := p.slot.startLogged(ctx, r, log)
	if err != nil {
		return failed, time.Time{}, errors.Join(err, log.Close())
	}
	defer context.AfterFunc(ctx, func() { _ = proc.Signal(unix.SIGKILL) })()
	started(proc, time.Now())
	<-proc.Done()
	ended := time.Now()
	// The mark is a whole entry: the id of a container "a-0" begins with that of
	// a run of "a".
	left := process.Mark{
		Entry:      cookie(lifecycle.RunID(p.orders.UID, c.Name, run)),
		Namespaces: p.slot.namespaces.Of(proc),
	}
	if err := p.slot.sweep(left); err != nil {
		p.logger.Error("ending what a container left", "container", c.Name, "run", run, "error", err)
	}
	wait()
	if err := log.Close(); err != nil {
		p.logger.Error("the log is incomplete", "container", c.Name, "run", run, "error", err)
	}
	exit := lifecycle.Exit{Code: process.ExitCode(proc.Status())}
	fallBack := exit.Code != 0 && c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
	if exit.Message, err = termination.message(p.terminationLimit(), fallBack, path); err != nil {
		p.logger.Warn("reading the termination message", "container", c.Name, "run", run, "error", err)
	}
	return exit, ended, nil
}

// startLogged starts a process whose output goes to a log. The function that it
// returns waits until the log has all of it.
func (s *slot) startLogged(ctx context.Context, r sandbox.Recipe, log *crilog.Log) (*process.Process, func(), error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the container's input: %w", err)
	}
	defer null.Close() //nolint:errcheck // nothing was written
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("opening the container's output: %w", err)
	}
	defer outW.Close() //nolint:errcheck // the process has a duplicate
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("opening the container's output: %w", errors.Join(err, outR.Close()))
	}
	defer errW.Close() //nolint:errcheck // as above
	starter := sandbox.Starter{Table: s.table, KillGroup: true, Started: s.namespaces.Hold}
	proc, err := starter.Start(ctx, r, sandbox.Streams{Stdin: null, Stdout: outW, Stderr: errW})
	if err != nil {
		return nil, nil, errors.Join(err, outR.Close(), errR.Close())
	}
	var copying sync.WaitGroup
	for name, pipe := range map[string]*os.File{crilog.Stdout: outR, crilog.Stderr: errR} {
		copying.Go(func() {
			stream := log.Stream(name)
			defer stream.Close() //nolint:errcheck // the log tells of errors
			if err := process.CopyOutput(stream, pipe, proc.Done(), quiet); err != nil {
				s.logger.Error("reading a container's output", "error", err)
			}
		})
	}
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
