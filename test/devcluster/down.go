package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// downPatience is how long `up` gets to stop its components, which takes less than a second, before it is killed. The
// components then go with it.
const downPatience = 20 * time.Second

func newDownCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down --dir DIR",
		Short: "End a cluster and everything it started",
		Long: `End the cluster in the given folder. When the command returns, no process of it is left. The data, keys and
logs stay in the folder. It is no error if the cluster is not running.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := newLayout(dir)
			if err != nil {
				return err
			}
			return down(cmd.Context(), l)
		},
	}
	addDirFlag(cmd, &dir)
	return cmd
}

func down(ctx context.Context, l layout) error {
	if _, err := os.Stat(l.state()); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "there is no cluster in %s\n", l.dir)
		return nil
	}
	running, err := l.running()
	if err != nil {
		return err
	}
	s, err := l.readState()
	if err != nil {
		return err
	}
	if running {
		if err := s.Supervisor.end(downPatience); err != nil {
			return err
		}
	}
	lock, err := l.waitLock(ctx, downPatience)
	if errors.Is(err, errLocked) {
		return fmt.Errorf("the cluster in %s still has processes, but its supervisor, process %d, is gone or cannot be "+
			"seen from here (another PID namespace?)", l.dir, s.Supervisor.PID)
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := l.cleanUpAfterKill(); err != nil {
		return err
	}
	if running {
		fmt.Fprintf(os.Stderr, "ended the cluster in %s\n", l.dir)
	} else {
		fmt.Fprintf(os.Stderr, "the cluster in %s is not running\n", l.dir)
	}
	return nil
}

// cleanUpAfterKill does what `up` does at its end, for when it was killed and could not. The caller holds the lock.
func (l layout) cleanUpAfterKill() error {
	if err := os.Remove(l.kubeconfig()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the kubeconfig of the ended cluster: %w", err)
	}
	s, err := l.readState()
	if err != nil {
		return err
	}
	if s.Phase != phaseStarting && s.Phase != phaseReady {
		return nil
	}
	s.Phase = phaseStopped
	s.Components = nil
	return l.writeState(s)
}
