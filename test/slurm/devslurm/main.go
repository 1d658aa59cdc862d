package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gangline/gangline/test/slurm"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	cancel()
	if err == nil {
		return
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode()) // a command on a node; it has said why itself
	}
	fmt.Fprintln(os.Stderr, "devslurm:", err)
	os.Exit(1)
}

// target says which cluster a command means.
type target struct{ name, dir string }

func (t target) path() string {
	if t.dir != "" {
		return t.dir
	}
	return slurm.Dir(t.name)
}

func (t target) attach() (*slurm.Cluster, error) { return slurm.Attach(t.path()) }

func newCommand() *cobra.Command {
	t := &target{}
	root := &cobra.Command{
		Use:           "devslurm",
		Short:         "A real multi-node Slurm on one machine, for development and tests",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&t.name, "name", slurm.DefaultName, "the cluster's name")
	root.PersistentFlags().StringVar(&t.dir, "dir", "", "the cluster's folder, not under /tmp (default "+slurm.Dir("NAME")+")")
	root.AddCommand(newUp(t), newDown(t), newStatus(t), newEnv(t), newExec(t))
	root.AddCommand(newFaults(t)...)
	return root
}
