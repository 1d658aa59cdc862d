package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent"
	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/agent/launch"
	"github.com/gangline/gangline/agent/mpirun"
	"github.com/gangline/gangline/agent/nodump"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
)

// maxThreads bounds the agent's own parallelism.
const maxThreads = 4

// version is set by the release build.
var version = "dev"

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "gangline-agent",
		Short:         "Runs the pods of a gang in an allocation of a workload manager",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(launchCommand(), serveCommand(), rankCommand(), gatewayCommand(), doctorCommand(), imagesCommand(), pullCommand(), versionCommand())
	return root
}

func launchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "launch DIR",
		Short: "Start an agent in each task of this allocation (the batch script's only command)",
		Long: `Take the claim of the gang in DIR, start an agent in each task of this
allocation, and write how it ended to DIR/result.json. The exit code is the
highest of the pods' or, where agents failed, theirs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program's file: %w", err)
			}
			code, err := launch.Run(cmd.Context(), launch.Config{
				Dir: spool.Dir(args[0]), Self: self, Env: os.Environ(),
				Stdout: os.Stdout, Stderr: os.Stderr, Logger: newLogger(),
			})
			if err == nil && code != 0 {
				err = exit(code)
			}
			return err
		},
	}
}

func serveCommand() *cobra.Command {
	var task int
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve the slots of one task of the gang in DIR",
		Long: `Run the pods that the node binds to the slots of one task, until the
allocation is released.

Variables of the environment by which a site can say what the agent does not
find out by itself:
  GANGLINE_ADDRESS        the IP address by which other nodes reach this one
  GANGLINE_NODE           this node's name, where Slurm or Flux does not say it
  GANGLINE_RUNTIME_DIR    a directory in memory (default /dev/shm/gangline-UID)
  TMPDIR                  where scratch volumes are (default /tmp)
  GANGLINE_PRIVATE_ROOT   "off": do not use user namespaces
  GANGLINE_KILL_WAIT      what pods get at most to end when the job is ended,
                          before everything is killed (default 25s; set from
                          Slurm's KillWait and Flux's exec.kill-timeout)
  GANGLINE_JOB_ID, GANGLINE_TASK   for workload managers other than Slurm and Flux`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			// The cores are the pods'.
			runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), maxThreads))
			entry := sandbox.Enter()
			cfg, err := agent.FromEnvironment(args[0], task, os.Getenv)
			cfg.Logger, cfg.Program = newLogger(), version
			if entry.Ended {
				if err == nil {
					cfg.CleanUp() // the agent may have been killed
				}
				return exit(entry.Code)
			}
			cfg.PrivateRoot = entry.Unavailable
			if doctor.Examines(args[0]) {
				return examine(cmd.Context(), args[0], cfg, err)
			}
			if err == nil {
				err = nodump.Apply()
			}
			if err != nil {
				return err
			}
			err = agent.Serve(cmd.Context(), cfg)
			if cfg.Unlaunched {
				return endTask(cmd.Context(), cfg, err)
			}
			if errors.Is(err, agent.ErrTerminated) {
				return exit(128 + unix.SIGTERM)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&task, "task", -1, "the task's `number`; by default the workload manager's")
	return cmd
}

// endTask turns an agent's end into the exit code of its task, where no launcher does.
func endTask(ctx context.Context, cfg agent.Config, failure error) error {
	end := launch.Task{Dir: cfg.Dir, Number: cfg.Task, JobID: cfg.JobID, Pace: cfg.Pace, Logger: cfg.Logger}
	if errors.Is(failure, agent.ErrTerminated) {
		failure = launch.ErrTerminated
	}
	if code := end.End(ctx, failure); code != 0 {
		return exit(code)
	}
	return nil
}

func rankCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rank DIR",
		Short: "Have one rank of a step started in its pod (what a workload manager runs for mpirun)",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			// Signals are the rank's to heed, so this command's context has none.
			code, err := mpirun.RankMain(context.Background(), spool.Dir(args[0]), os.Environ())
			if err == nil && code != 0 {
				err = exit(code)
			}
			return err
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "gangline-agent", version, runtime.Version())
			return err
		},
	}
}

func newLogger() *slog.Logger { return slog.New(slog.NewJSONHandler(os.Stderr, nil)) }
