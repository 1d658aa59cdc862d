package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gangline/gangline/test/harness"
)

func main() {
	os.Exit(part())
}

// part runs the part that this process is.
func part() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	run := map[string]func(context.Context) error{
		partNode:      runNode,
		partSimulator: runSimulator,
	}[os.Getenv(envPart)]
	if run == nil {
		run = func(ctx context.Context) error { return command().ExecuteContext(ctx) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		return harness.ExitCode(err)
	}
	return 0
}

// The parts, and the variable that says which one a process is.
const (
	envPart       = "GANGLINE_SCALE_PART"
	partNode      = "node"
	partSimulator = "simulator"
)

// settings are what is run.
type settings struct {
	pods, gangs int // 0 gangs for one of each pod
	scheduled   int // pods that the scheduler is to bind, before the others
	seed        uint64
	failures    float64       // the share of gangs that harm comes to in a storm
	kills       int           // of the node in a storm
	window      time.Duration // of the steady state
	leave       bool          // the pods are not deleted
	profiles    string        // directory for profiles; empty for none
	root        string        // of the repository
	progress    io.Writer
}

// stormy tells that a storm is run, and not the parts that are measured.
func (s settings) stormy() bool { return s.failures > 0 || s.kills > 0 }

func (s settings) check() error {
	switch {
	case s.pods < 1 || s.gangs < 0 || s.gangs > 0 && s.pods%s.gangs != 0:
		return fmt.Errorf("--pods is a number from 1 on and a multiple of --gangs, not %d and %d", s.pods, s.gangs)
	case s.scheduled < 0 || s.scheduled%podsPerScheduledGang != 0:
		return fmt.Errorf("--scheduled is 0 or a multiple of %d, not %d", podsPerScheduledGang, s.scheduled)
	case s.window < time.Second:
		return fmt.Errorf("--window is a second or more, not %s", s.window)
	case !(s.failures >= 0 && s.failures <= 0.5) || s.kills < 0: // NaN is neither
		return fmt.Errorf("--failures is from 0 to 0.5 and --kills from 0 on, not %v and %d", s.failures, s.kills)
	}
	return nil
}

func command() *cobra.Command {
	s := settings{progress: os.Stderr}
	cmd := &cobra.Command{
		Use:           "scale",
		Short:         "Run a virtual node with many simulated pods and print figures",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctrllog.SetLogger(logr.Discard())
			if err := s.check(); err != nil {
				return err
			}
			var err error
			if s.root, err = filepath.Abs("."); err != nil {
				return fmt.Errorf("finding the repository: %w", err)
			}
			r, err := measure(cmd.Context(), s)
			return errors.Join(err, r.print(cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&s.pods, "pods", 10_000, "pods")
	flags.IntVar(&s.gangs, "gangs", 100, "gangs that they are in; 0 for a gang of each pod")
	flags.IntVar(&s.scheduled, "scheduled", 1000, "pods that are bound by the scheduler, before; 0 for none, and then scheduler and JobSet controller are stopped")
	flags.Uint64Var(&s.seed, "seed", 1, "what latencies and failures are drawn from")
	flags.Float64Var(&s.failures, "failures", 0, "the share of gangs that harm comes to, and of calls that fail, up to 0.5; with it or --kills a storm is run and judged, and nothing measured")
	flags.IntVar(&s.kills, "kills", 0, "how often the node is killed in a storm")
	flags.DurationVar(&s.window, "window", 30*time.Second, "how long the steady state is looked at")
	flags.BoolVar(&s.leave, "leave", false, "do not delete the pods in the end: with very many that takes longer than all else")
	flags.StringVar(&s.profiles, "profiles", "", "directory for the node's profiles of each part; empty for none")
	return cmd
}
