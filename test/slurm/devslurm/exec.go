package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gangline/gangline/test/slurm"
)

func newExec(t *target) *cobra.Command {
	opts := slurm.ExecOptions{}
	cmd := &cobra.Command{
		Use:     "exec NODE -- COMMAND...",
		Short:   "Run a command on a node or on the head, outside of Slurm; its exit code is ours",
		Example: "devslurm exec hpc1 --user hpcuser -- bash",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := t.attach()
			if err != nil {
				return err
			}
			// Ctrl-C reaches the command by itself, through the terminal; a shell shall survive it.
			ctx, stop := signal.NotifyContext(context.WithoutCancel(cmd.Context()), syscall.SIGTERM)
			defer stop()
			// The real files, not copies: a shell then has the terminal.
			opts.Stdin, opts.Stdout, opts.Stderr = os.Stdin, os.Stdout, os.Stderr
			return c.Exec(ctx, args[0], opts, args[1:]...)
		},
	}
	cmd.Flags().StringVar(&opts.User, "user", "", "user to run as (default root)")
	cmd.Flags().StringVar(&opts.Dir, "workdir", "/", "working directory")
	return cmd
}
