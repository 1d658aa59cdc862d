package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/usage"
	"github.com/gangline/gangline/provider/spool"
)

// tryTimeout bounds the test whether a private root can be built.
const tryTimeout = 30 * time.Second

// ErrTerminated says that the agent was asked to end before its allocation was
// given back.
var ErrTerminated = errors.New("terminated")

// Serve serves the slots of a task until the node releases the allocation (nil)
// or the context ends (ErrTerminated): then it has stopped its pods, each within
// its grace period. Any other error is the agent's own failure. The program may
// have no other children; when Serve returns it has none.
func Serve(ctx context.Context, cfg Config) error {
	gang, slots, err := readGang(cfg)
	if err != nil {
		return err
	}
	if err := holdClaim(ctx, cfg); err != nil {
		return err
	}
	table, err := process.NewTable()
	if err != nil {
		return err
	}
	meter := usage.NewMeter(envContainer)
	table.OnReap(meter.Reaped)
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
	cfg = cfg.WithScratch(gang.Scratch)
	if err := cfg.CheckScratch(); err != nil {
		return err
	}
	cfg.RemoveLeftovers()
	for _, dir := range []*string{&cfg.Runtime, &cfg.Scratch} {
		own, temporary, err := ownDir(*dir, cfg.Logger)
		if err != nil {
			return err
		}
		if *dir = own; temporary {
			defer os.Remove(own) //nolint:errcheck // if it is empty
		}
	}
	defer func() { cfg.RemoveScratch() }() // when the slots' own are gone
	if cfg.PrivateRoot == nil {
		cfg.PrivateRoot = tryPrivateRoot(ctx, cfg, table)
	}
	if cfg.PrivateRoot != nil {
		cfg.Logger.Warn("pods have no private root", "error", cfg.PrivateRoot)
	}
	a := agent{cfg: cfg, table: table, meter: meter}
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
// has taken the claim, or the first of its agents does. It reads first: as a rule
// there is a claim, and all agents of a gang start at once.
func holdClaim(ctx context.Context, cfg Config) error {
	var holder spool.Claim
	found, err := spool.Read(cfg.Dir.Claim(), &holder)
	if err != nil {
		return err
	}
	if !found {
		err = spool.WhileFull(ctx, func() error {
			return cfg.Dir.TakeClaim(spool.Claim{JobID: cfg.JobID, Host: cfg.Node, Acquired: time.Now()})
		})
		if !errors.Is(err, spool.ErrClaimed) {
			return err
		}
		if _, err := spool.Read(cfg.Dir.Claim(), &holder); err != nil {
			return err
		}
	}
	if holder.JobID != cfg.JobID {
		return fmt.Errorf("this is job %s: %w: job %s on %s", cfg.JobID, spool.ErrClaimed, holder.JobID, holder.Host)
	}
	return nil
}

// tryPrivateRoot tells why private roots cannot be built, nil if they can.
func tryPrivateRoot(ctx context.Context, cfg Config, table *process.Table) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
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
