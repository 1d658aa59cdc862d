package slurm

import (
	"context"

	"github.com/gangline/gangline/test/slurm/internal/supervisor"
)

// Crash is a power cut on a node: its network goes, then all of its processes at once.
// Slurm notices after SlurmdTimeout (10 s) and a little more.
func (c *Cluster) Crash(ctx context.Context, node string) error {
	_, err := c.order(ctx, supervisor.Request{Op: supervisor.OpCrash, Node: node})
	return err
}

// Restart switches a node on, after a power cut if it is on, and returns when Slurm uses
// it again. That needs a running slurmctld.
func (c *Cluster) Restart(ctx context.Context, node string) error {
	if _, err := c.order(ctx, supervisor.Request{Op: supervisor.OpRestart, Node: node}); err != nil {
		return err
	}
	return c.WaitNode(ctx, node, "idle", "mixed", "allocated", "completing")
}

// RestartDaemon kills a node's slurmd, not its jobs, and starts another.
func (c *Cluster) RestartDaemon(ctx context.Context, node string) error {
	_, err := c.order(ctx, supervisor.Request{Op: supervisor.OpKillDaemon, Node: node})
	return err
}

// StopController ends slurmctld kindly: it saves its state.
func (c *Cluster) StopController(ctx context.Context) error {
	_, err := c.order(ctx, supervisor.Request{Op: supervisor.OpStopController})
	return err
}

// KillController ends slurmctld with SIGKILL.
func (c *Cluster) KillController(ctx context.Context) error {
	_, err := c.order(ctx, supervisor.Request{Op: supervisor.OpStopController, Kill: true})
	return err
}

// StartController starts slurmctld and returns when it answers.
func (c *Cluster) StartController(ctx context.Context) error {
	_, err := c.order(ctx, supervisor.Request{Op: supervisor.OpStartController})
	return err
}

// StopREST ends slurmrestd.
func (c *Cluster) StopREST(ctx context.Context) error {
	_, err := c.order(ctx, supervisor.Request{Op: supervisor.OpStopREST})
	return err
}

// StartREST starts slurmrestd and returns when it listens.
func (c *Cluster) StartREST(ctx context.Context) error {
	_, err := c.order(ctx, supervisor.Request{Op: supervisor.OpStartREST})
	return err
}

// RestartController stops slurmctld and starts it.
func (c *Cluster) RestartController(ctx context.Context) error {
	if err := c.StopController(ctx); err != nil {
		return err
	}
	return c.StartController(ctx)
}
