package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gangline/gangline/test/slurm"
)

// orderWithin bounds every order to a running cluster.
const orderWithin = 90 * time.Second

// newFaults are the commands that break and mend a running cluster.
func newFaults(t *target) []*cobra.Command {
	kill := false
	stop := controllerCommand(t, "stop-ctld", "Stop slurmctld, which saves its state",
		func(c *slurm.Cluster, ctx context.Context) error {
			if kill {
				return c.KillController(ctx)
			}
			return c.StopController(ctx)
		})
	stop.Flags().BoolVar(&kill, "kill", false, "with SIGKILL")
	return []*cobra.Command{
		nodeCommand(t, "crash NODE", "Cut a node's power", (*slurm.Cluster).Crash),
		nodeCommand(t, "restart NODE", "Switch a node on, after a power cut if it is on; wait until Slurm uses it",
			(*slurm.Cluster).Restart),
		stop,
		controllerCommand(t, "start-ctld", "Start slurmctld", (*slurm.Cluster).StartController),
		controllerCommand(t, "stop-rest", "Stop slurmrestd", (*slurm.Cluster).StopREST),
		controllerCommand(t, "start-rest", "Start slurmrestd", (*slurm.Cluster).StartREST),
		controllerCommand(t, "restart-ctld", "Stop and start slurmctld", (*slurm.Cluster).RestartController),
	}
}

func nodeCommand(t *target, use, short string, do func(*slurm.Cluster, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCluster(cmd, t, func(c *slurm.Cluster, ctx context.Context) error { return do(c, ctx, args[0]) })
		},
	}
}

func controllerCommand(t *target, use, short string, do func(*slurm.Cluster, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return withCluster(cmd, t, do) },
	}
}

func withCluster(cmd *cobra.Command, t *target, do func(*slurm.Cluster, context.Context) error) error {
	c, err := t.attach()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), orderWithin)
	defer cancel()
	return do(c, ctx)
}
