package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/usage"
	"github.com/gangline/gangline/agent/watch"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// lastReportTimeout bounds the wait for the last status to be written.
const lastReportTimeout = time.Minute

// agent serves the slots of one task.
type agent struct {
	cfg   Config
	table *process.Table
	meter *usage.Meter
	key   *spool.Key
}

func (a *agent) serve(ctx context.Context, g spool.Gang, indices []int) error {
	all, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var slots []*slot
	defer func() {
		for _, s := range slots {
			_ = s.listener.Close()
			s.ports.close()
		}
	}()
	instance := uuid.NewString()
	for _, k := range indices {
		s, err := a.newSlot(all, g, k, instance)
		if err != nil {
			return err
		}
		s.alone = len(indices) == 1
		slots = append(slots, s)
	}
	leave := sync.OnceFunc(func() {
		for _, s := range slots {
			s.leave()
		}
	})
	var running sync.WaitGroup
	for _, s := range slots {
		running.Go(func() {
			if err := s.serve(); err != nil {
				cancel(fmt.Errorf("slot %d: %w", s.index, err))
			}
		})
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(all, slots, leave) })
	go a.reportUsage(all, slots) // not waited for: a filesystem that hangs must not hold up the end
	defer watching.Wait()
	defer cancel(nil)

	select {
	case <-ended:
		return context.Cause(all)
	case <-ctx.Done():
	}
	a.cfg.Logger.Info("the agent was asked to end")
	for _, s := range slots {
		s.interrupt()
	}
	<-ended
	if err := context.Cause(all); err != nil {
		return err
	}
	return ErrTerminated
}

func (a *agent) newSlot(ctx context.Context, g spool.Gang, k int, instance string) (*slot, error) {
	logger := a.cfg.Logger.With("gang", g.Allocation, "slot", k, "job", a.cfg.JobID)
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("opening the SSH service of slot %d: %w", k, err)
	}
	if !a.cfg.bound(g.Slots[k].GPUs).Known() {
		logger.Warn("the workload manager does not say which devices the slot has: its pod sees all of the node's; in Slurm, name the device files in gres.conf",
			"gpus", g.Slots[k].GPUs)
	}
	s := &slot{
		cfg: a.cfg, index: k, spec: g.Slots[k], slots: g.Slots, allocation: g.Allocation,
		key: a.key, table: a.table, meter: a.meter, listener: listener, logger: logger,
		reporter: newReporter(a.cfg.Dir.Status(k), logger),
		messages: make(chan func()),
		names:    g.Names,
		finished: map[string]bool{},
		changed:  make(chan struct{}),

		interrupted: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.status.Version = spool.Version
	s.status.Agent = spool.Agent{
		Instance: instance, JobID: a.cfg.JobID, Node: a.cfg.Node, Address: a.cfg.Address,
		SSHPort: listener.Addr().(*net.TCPAddr).Port, RendezvousPorts: s.ports.numbers,
		Recipient: a.key.Recipient(), Program: a.cfg.Program, Started: time.Now(),
		PrivateRoot: a.cfg.PrivateRoot == nil,
	}
	if a.cfg.PrivateRoot != nil {
		s.status.Agent.PrivateRootError = a.cfg.PrivateRoot.Error()
	}
	if err := s.serveControl(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return s, nil
}

// prepare removes what an earlier agent of the slot left, and takes over what it
// said of its last pod: that one must not run again.
func (s *slot) prepare() error {
	for _, dir := range []string{s.memoryDir(), s.diskDir()} {
		if err := removeAll(dir); err != nil {
			return fmt.Errorf("removing what an earlier agent left: %w", err)
		}
		if err := makeOwnDir(dir); err != nil {
			return err
		}
		lock, err := lockSlotDir(dir, s.cfg.Node)
		if err != nil {
			return err
		}
		s.locks = append(s.locks, lock)
	}
	var earlier spool.Status
	if _, err := spool.Read(s.cfg.Dir.Status(s.index), &earlier); err != nil {
		return err
	}
	s.keepPorts(earlier.Agent)
	if earlier.Pod == nil {
		return nil
	}
	p := *earlier.Pod
	if !p.Done {
		p.Done, p.Reason = true, wellknown.ReasonAgentRestarted
		p.Message = "the agent that ran the pod has ended, and a pod is never run twice"
	}
	s.status.Pod = &p
	s.finished[p.UID] = true
	return nil
}

// serve runs the slot and everything beside it to the end.
func (s *slot) serve() error {
	reported := make(chan error, 1)
	reporting, stopReporting := context.WithCancel(context.Background())
	defer stopReporting()
	go func() { reported <- s.reporter.run(reporting) }()
	err := s.run()
	s.cancel()
	s.awaitBackground()
	s.reporter.close()
	defer time.AfterFunc(lastReportTimeout, stopReporting).Stop()
	err = errors.Join(err, <-reported)
	for _, dir := range []string{s.memoryDir(), s.diskDir()} {
		if err := removeAll(dir); err != nil {
			s.logger.Error("removing the slot's directories", "error", err)
		}
	}
	for _, lock := range s.locks {
		_ = lock.Close()
	}
	return err
}

// awaitBackground waits for all that the slot has begun. What hangs on a filesystem is left
// behind, or the allocation could not be given back.
func (s *slot) awaitBackground() {
	ended := make(chan struct{})
	go func() { s.background.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(sweepTimeout):
		s.logger.Warn("a filesystem does not answer; what waits for it is left behind")
	}
}

// watch follows gang.json and the slots' desired.json.
func (a *agent) watch(ctx context.Context, slots []*slot, leave func()) {
	handlers := map[string]func(path string) error{
		a.cfg.Dir.Gang(): func(path string) error {
			g, err := read[spool.Gang](path)
			if err != nil {
				return err
			}
			for _, s := range slots {
				s.setNames(g.Names)
			}
			if g.Release {
				a.cfg.Logger.Info("the allocation is released")
				leave()
			}
			return nil
		},
	}
	paths := []string{a.cfg.Dir.Gang()}
	for _, s := range slots {
		path := a.cfg.Dir.Desired(s.index)
		paths = append(paths, path)
		handlers[path] = func(path string) error {
			d, err := read[spool.Desired](path)
			if err != nil {
				return err
			}
			if d.Version > spool.Version {
				return fmt.Errorf("%s has version %d and this agent knows %d: update gangline-agent", filepath.Base(path), d.Version, spool.Version)
			}
			if d.Action != spool.ActionRun && d.Action != spool.ActionStop {
				return fmt.Errorf("%s asks for %q, which this agent does not know", filepath.Base(path), d.Action)
			}
			s.setDesired(d)
			return nil
		}
	}
	watch.Watcher{
		Paths: paths, Pace: a.cfg.Pace, Logger: a.cfg.Logger,
		Changed: func(path string) error { return handlers[path](path) },
	}.Run(ctx)
}

func read[T any](path string) (T, error) {
	var v T
	_, err := spool.Read(path, &v)
	return v, err
}
