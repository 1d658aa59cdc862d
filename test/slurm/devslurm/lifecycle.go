package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gangline/gangline/test/slurm"
)

func newUp(t *target) *cobra.Command {
	cfg := slurm.Config{Detach: true}
	gpus := 0
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, wait until all nodes are idle, print its environment as KEY=value",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Name, cfg.Dir, cfg.Progress = t.name, t.dir, cmd.ErrOrStderr()
			if cfg.GPUs = gpus; gpus == 0 {
				cfg.GPUs = slurm.NoGPUs
			}
			if cfg.Nodes == 0 || cfg.CPUs == 0 || cfg.MemoryMB == 0 { // would mean the default
				return errors.New("--nodes, --cpus and --memory-mb must be at least 1")
			}
			c, err := slurm.Start(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return printEnv(cmd.OutOrStdout(), c)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Nodes, "nodes", slurm.DefaultNodes, "number of nodes")
	f.IntVar(&cfg.CPUs, "cpus", slurm.DefaultCPUs, "CPUs per node, as Slurm believes")
	f.IntVar(&cfg.MemoryMB, "memory-mb", slurm.DefaultMemoryMB, "memory per node, as Slurm believes")
	f.IntVar(&gpus, "gpus", slurm.DefaultGPUs, "fake GPUs per node")
	f.StringVar(&cfg.User, "user", slurm.DefaultUser, "ordinary user that runs jobs; created if missing")
	f.IntVar(&cfg.UID, "uid", 0, "uid of that user (default: the system's choice)")
	f.StringVar(&cfg.NodePrefix, "node-prefix", "", `node names without their number (default "hpc", or "NAME-hpc" for other names)`)
	f.BoolVar(&cfg.Cgroup, "cgroup", false, "track jobs and limit their memory with cgroup v1")
	f.BoolVar(&cfg.REST, "rest", false, "run slurmrestd too")
	f.BoolVar(&cfg.Accounting, "accounting", false, "keep jobs in a database: slurmdbd and MariaDB too")
	f.IntVar(&cfg.MinJobAge, "min-job-age", slurm.DefaultMinJobAge, "seconds that ended jobs are remembered")
	f.BoolVar(&cfg.NoUserNamespaces, "no-user-namespaces", false, "jobs cannot make user namespaces")
	return cmd
}

func newDown(t *target) *cobra.Command {
	keep := false
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take a cluster down, whatever is left of it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return slurm.Down(cmd.Context(), t.path(), keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep-files", false, "keep logs and the shared folder until the next up")
	return cmd
}

func newEnv(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print a cluster's environment as KEY=value",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.attach()
			if err != nil {
				return err
			}
			return printEnv(cmd.OutOrStdout(), c)
		},
	}
}

func printEnv(w io.Writer, c *slurm.Cluster) error {
	for _, line := range c.Env() {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("print the environment: %w", err)
		}
	}
	return nil
}

func newStatus(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which machines and daemons run, and what Slurm thinks of its nodes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := t.attach()
			if err != nil {
				return err
			}
			st, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			states := map[string]string{}
			if st.Controller.PID != 0 {
				if states, err = c.NodeStates(cmd.Context()); err != nil {
					return err
				}
			}
			return printStatus(cmd.OutOrStdout(), c, st, states)
		},
	}
}

func printStatus(out io.Writer, c *slurm.Cluster, st slurm.Status, states map[string]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "cluster %s in %s, supervisor %d\n", c.Name(), c.Dir(), st.PID)
	fmt.Fprintln(w, "MACHINE\tADDRESS\tPID\tDAEMONS\tSLURM")
	fmt.Fprintf(w, "%s\t%s\t%s\tslurmctld %s, munged %s%s\t\n", st.Head.Name, st.Head.Addr, pid(st.Head.PID),
		daemon(st.Controller), daemon(st.Munge), extras(st))
	for _, n := range st.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s\tslurmd %s\t%s\n", n.Name, n.Addr, pid(n.PID), daemon(n.Slurmd), states[n.Name])
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}

// extras are the daemons that only some clusters have.
func extras(st slurm.Status) string {
	var text string
	for _, d := range []struct {
		name   string
		status slurm.DaemonStatus
	}{{"slurmrestd", st.REST}, {"mariadbd", st.Database}, {"slurmdbd", st.Accounting}} {
		if d.status != (slurm.DaemonStatus{}) {
			text += ", " + d.name + " " + daemon(d.status)
		}
	}
	return text
}

func pid(n int) string {
	if n == 0 {
		return "down"
	}
	return fmt.Sprint(n)
}

func daemon(d slurm.DaemonStatus) string {
	if d.Ended != "" {
		return "ended (" + d.Ended + ")"
	}
	return pid(d.PID)
}
