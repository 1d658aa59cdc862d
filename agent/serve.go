package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/watch"
	"github.com/gangline/gangline/provider/spool"
)

const (
	// probeTimeout bounds the test whether a private root can be built.
	probeTimeout = 30 * time.Second
	// lastReportTimeout bounds the wait for the last status to be written.
	lastReportTimeout = time.Minute
)

// ErrTerminated says that the agent was asked to end before its allocation was
// given back.
var ErrTerminated = errors.New("terminated")

type containerStatus = corev1.ContainerStatus

// Serve serves the slots of a task until the node releases the allocation (nil)
// or the context ends (ErrTerminated): then it has stopped its pods, each within
// its grace period. Any other error is the agent's own failure. The program may
// have no other children; when Serve returns it has none.
func Serve(ctx context.Context, cfg Config) error {
	gang, slots, err := readGang(cfg)
	if err != nil {
		return err
	}
	if err := holdClaim(cfg); err != nil {
		return err
	}
	table, err := process.NewTable()
	if err != nil {
		return err
	}
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	var reaper sync.WaitGroup
	reaper.Go(func() { table.Run(reaping) })
	defer func() {
		stopReaping()
		reaper.Wait()
		sweeping, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
		defer cancel()
		if err := process.KillDescendants(sweeping); err != nil {
			cfg.Logger.Error("ending what is left", "error", err)
		}
	}()
	for _, dir := range []string{cfg.Runtime, cfg.Scratch} {
		if err := makeOwnDir(dir); err != nil {
			return err
		}
	}
	if cfg.PrivateRoot == nil {
		cfg.PrivateRoot = probe(ctx, cfg, table)
	}
	if cfg.PrivateRoot != nil {
		cfg.Logger.Warn("pods have no private root", "error", cfg.PrivateRoot)
	}
	a := agent{cfg: cfg, table: table}
	if a.key, err = spool.NewKey(); err != nil {
		return err
	}
	return a.serve(ctx, gang, slots)
}

// readGang returns the gang and the slots of the task.
func readGang(cfg Config) (spool.Gang, []int, error) {
	var g spool.Gang
	switch found, err := spool.Read(cfg.Dir.Gang(), &g); {
	case err != nil:
		return g, nil, err
	case !found:
		return g, nil, fmt.Errorf("%s is not there: is %s the gang's directory, and does this node have the spool's filesystem?", cfg.Dir.Gang(), cfg.Dir)
	case g.Version > spool.Version:
		return g, nil, fmt.Errorf("%s has version %d and this agent knows %d: update gangline-agent", cfg.Dir.Gang(), g.Version, spool.Version)
	case cfg.Task >= len(g.Tasks):
		return g, nil, fmt.Errorf("the gang has %d tasks, there is none with number %d", len(g.Tasks), cfg.Task)
	}
	for _, k := range g.Tasks[cfg.Task] {
		if k < 0 || k >= len(g.Slots) {
			return g, nil, fmt.Errorf("task %d is to serve slot %d, and the gang has %d slots", cfg.Task, k, len(g.Slots))
		}
	}
	return g, g.Tasks[cfg.Task], nil
}

// holdClaim makes sure that this job is the one that runs the gang. Its launcher
// has taken the claim, or the first of its agents does.
func holdClaim(cfg Config) error {
	err := cfg.Dir.TakeClaim(spool.Claim{JobID: cfg.JobID, Host: cfg.Node, Acquired: time.Now()})
	if !errors.Is(err, spool.ErrClaimed) {
		return err
	}
	var holder spool.Claim
	if _, err := spool.Read(cfg.Dir.Claim(), &holder); err != nil {
		return err
	}
	if holder.JobID != cfg.JobID {
		return fmt.Errorf("this is job %s: %w", cfg.JobID, err)
	}
	return nil
}

// probe tells why private roots cannot be built, nil if they can.
func probe(ctx context.Context, cfg Config, table *process.Table) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(cfg.Runtime, ".probe-")
	if err != nil {
		return fmt.Errorf("testing private roots: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is empty but for an empty directory
	// A new path below / and one below a directory need different calls.
	return sandbox.Starter{Table: table}.Build(ctx, &sandbox.Root{
		Hostname: "probe",
		Scratch:  dir,
		Mounts: []sandbox.Mount{
			{Source: dir, Target: runDir, ReadOnly: true},
			{Source: dir, Target: "/gangline-probe", ReadOnly: true},
		},
	})
}

// agent serves the slots of one task.
type agent struct {
	cfg   Config
	table *process.Table
	key   *spool.Key
}

func (a *agent) serve(ctx context.Context, g spool.Gang, indices []int) error {
	all, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var slots []*slot
	defer func() {
		for _, s := range slots {
			_ = s.listener.Close()
		}
	}()
	instance := uuid.NewString()
	for _, k := range indices {
		s, err := a.newSlot(all, g, k, instance)
		if err != nil {
			return err
		}
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
	defer watching.Wait()
	defer cancel(nil)

	select {
	case <-ended:
		return context.Cause(all)
	case <-ctx.Done():
	}
	a.cfg.Logger.Info("the agent was asked to end")
	leave()
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
	s := &slot{
		cfg: a.cfg, index: k, spec: g.Slots[k], allocation: g.Allocation,
		key: a.key, table: a.table, listener: listener, logger: logger,
		reporter: newReporter(a.cfg.Dir.Status(k), logger),
		messages: make(chan func()),
		names:    g.Names,
		finished: map[string]bool{},
		changed:  make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.status.Version = spool.Version
	s.status.Agent = spool.Agent{
		Instance: instance, JobID: a.cfg.JobID, Node: a.cfg.Node, Address: a.cfg.Address,
		SSHPort:   listener.Addr().(*net.TCPAddr).Port,
		Recipient: a.key.Recipient(), Started: time.Now(),
		PrivateRoot: a.cfg.PrivateRoot == nil,
	}
	if a.cfg.PrivateRoot != nil {
		s.status.Agent.PrivateRootError = a.cfg.PrivateRoot.Error()
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
	}
	var earlier spool.Status
	if _, err := spool.Read(s.cfg.Dir.Status(s.index), &earlier); err != nil || earlier.Pod == nil {
		return err
	}
	p := *earlier.Pod
	if !p.Done {
		p.Done, p.Reason = true, ReasonAgentRestarted
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
	s.background.Wait()
	s.reporter.close()
	defer time.AfterFunc(lastReportTimeout, stopReporting).Stop()
	err = errors.Join(err, <-reported)
	for _, dir := range []string{s.memoryDir(), s.diskDir()} {
		if err := removeAll(dir); err != nil {
			s.logger.Error("removing the slot's directories", "error", err)
		}
	}
	return err
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
