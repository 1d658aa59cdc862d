// Command demo shows the main job end to end on this machine: a Kubernetes
// control plane with the TrainJob controller, a Slurm cluster of four nodes, a
// virtual node between them, and an MPI TrainJob whose four pods become one Slurm
// job.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gangline/gangline/test/harness"
)

const name = "demo"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	d := &demo{}
	root := &cobra.Command{
		Use: "demo", Short: "Show Gangline on this machine",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&d.root, "root", ".", "the repository")
	root.PersistentFlags().StringVar(&d.dir, "dir", defaultDir(), "where the demo's files go")
	up := &cobra.Command{
		Use: "up", Short: "Start everything, run the examples, and leave it running", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.up(cmd.Context(), cmd.OutOrStdout()) },
	}
	up.Flags().StringVar(&d.manager, "wlm", "slurm", "workload manager: slurm or local")
	root.AddCommand(up, &cobra.Command{
		Use: "down", Short: "End what up has left running", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.absolute(); err != nil {
				return err
			}
			return harness.Down(cmd.Context(), d.root, d.dir, name)
		},
	})
	return root
}

// defaultDir is one that all of the dev Slurm's nodes see, where Slurm can run
// at all: only root can make its namespaces.
func defaultDir() string {
	cache, err := os.UserCacheDir()
	if os.Geteuid() == 0 || err != nil {
		return "/var/lib/gangline-dev/demo"
	}
	return filepath.Join(cache, "gangline-demo")
}

type demo struct {
	root, dir, manager string
	out                io.Writer
	env                *harness.Environment
}

func (d *demo) absolute() (err error) {
	if d.root, err = filepath.Abs(d.root); err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	return nil
}

func (d *demo) up(ctx context.Context, out io.Writer) error {
	d.out = out
	if err := d.absolute(); err != nil {
		return err
	}
	if d.manager != "slurm" && d.manager != "local" {
		return fmt.Errorf("the workload manager is slurm or local, not %q", d.manager)
	}
	if err := harness.Down(ctx, d.root, d.dir, name); err != nil {
		return fmt.Errorf("ending the demo before: %w", err)
	}
	d.title("Starting the real parts")
	env, err := harness.Start(ctx, harness.Options{
		Root: d.root, Name: name, Dir: d.dir, WorkloadManager: d.manager, Detach: true, Progress: out,
	})
	if err != nil {
		return err
	}
	d.env = env
	for _, step := range []func(context.Context) error{d.showNode, d.runMPI, d.runJob} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w\nEverything is left running: make demo-down ends it", err)
		}
	}
	d.title("All of it is left running")
	d.say("export KUBECONFIG=%s", env.ControlPlane.Kubeconfig())
	d.say("export PATH=%s:$PATH", filepath.Join(d.root, "bin"))
	if env.Slurm != nil {
		d.say("export SLURM_CONF=%s", env.Slurm.SlurmConf())
	}
	d.say("make demo-down ends it")
	return nil
}

func (d *demo) showNode(ctx context.Context) error {
	d.title("The virtual node, and the runtimes that TrainJobs may use")
	if err := d.show(ctx, "get", "nodes", "-o", "wide"); err != nil {
		return err
	}
	return d.show(ctx, "get", "clustertrainingruntimes")
}

func (d *demo) runMPI(ctx context.Context) error {
	d.title("An MPI TrainJob: 4 nodes, 2 processes and 2 GPUs on each")
	if err := d.show(ctx, "apply", "-f", filepath.Join(d.root, "examples", "mpi-trainjob.yaml")); err != nil {
		return err
	}
	began := time.Now()
	if err := d.wait(ctx, 2*time.Minute, func(pods string) bool {
		return strings.Count(pods, "Running") >= 4 || strings.Contains(pods, "Completed")
	},
		"get", "pods", "-l", "jobset.sigs.k8s.io/jobset-name=pi"); err != nil {
		return err
	}
	d.say("(the gang runs after %.1f s)", time.Since(began).Seconds())
	if err := d.show(ctx, "get", "pods", "-o", "wide", "-L", "gangline.dev/hpc-node", "-l", "jobset.sigs.k8s.io/jobset-name=pi"); err != nil {
		return err
	}
	if err := d.showJobs(ctx); err != nil {
		return err
	}
	d.title("The launcher's log")
	if err := d.show(ctx, "wait", "--for=condition=Complete", "--timeout=120s", "trainjob/pi"); err != nil {
		return err
	}
	if err := d.show(ctx, "logs", "-l", "jobset.sigs.k8s.io/replicatedjob-name=launcher", "--tail=-1"); err != nil {
		return err
	}
	d.title("The TrainJob")
	if err := d.show(ctx, "get", "trainjob"); err != nil {
		return err
	}
	if err := d.show(ctx, "get", "trainjob", "pi", "-o", "jsonpath={range .status.jobsStatus[*]}{.name}: {.succeeded} succeeded, {.failed} failed{\"\\n\"}{end}"); err != nil {
		return err
	}
	d.title("What kubectl describe says of its pods")
	return d.show(ctx, "get", "events", "--sort-by=.lastTimestamp", "-o",
		"custom-columns=OBJECT:.involvedObject.name,REASON:.reason,MESSAGE:.message", "--field-selector", "source=gangline-node")
}

func (d *demo) runJob(ctx context.Context) error {
	d.title("A plain Job")
	if err := d.show(ctx, "apply", "-f", filepath.Join(d.root, "examples", "job.yaml")); err != nil {
		return err
	}
	if err := d.show(ctx, "wait", "--for=condition=complete", "--timeout=60s", "job/hello"); err != nil {
		return err
	}
	if err := d.show(ctx, "logs", "job/hello"); err != nil {
		return err
	}
	return d.show(ctx, "get", "pods", "-o", "wide")
}

// showJobs shows the gang as the HPC centre sees it.
func (d *demo) showJobs(ctx context.Context) error {
	if d.env.Slurm == nil {
		return nil
	}
	d.title("The same, as Slurm sees it: one job")
	out, err := d.env.Slurm.Run(ctx, "squeue", "-o", "%i %j %u %T %C CPUs %D nodes %N")
	if err != nil {
		return fmt.Errorf("asking Slurm: %w", err)
	}
	d.say("$ squeue\n%s", out)
	return nil
}

func (d *demo) title(text string) { fmt.Fprintf(d.out, "\n== %s\n", text) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// show runs kubectl and prints the command and what it says.
func (d *demo) show(ctx context.Context, args ...string) error {
	d.say("$ kubectl %s", strings.Join(args, " "))
	out, err := d.env.Kubectl(ctx, "", args...)
	fmt.Fprint(d.out, out)
	if err == nil && !strings.HasSuffix(out, "\n") {
		fmt.Fprintln(d.out)
	}
	return err
}

// wait asks kubectl until the answer is good.
func (d *demo) wait(ctx context.Context, timeout time.Duration, good func(string) bool, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		out, err := d.env.Kubectl(ctx, "", args...)
		if err == nil && good(out) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kubectl %s did not show what was expected within %s; it last said: %s", strings.Join(args, " "), timeout, out)
		case <-ticker.C:
		}
	}
}
