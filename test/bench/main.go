// Command bench measures Gangline next to what it stands in for, in the same run on
// the same Slurm, and prints one table. Ratios and counts say the most: the times
// themselves depend on the machine. docs/performance.md says what each line means.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gangline/gangline/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	b := newBench()
	var only []string
	var file string
	var pictures bool
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure Gangline next to what it stands in for", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := choose(only)
			if err != nil {
				return err
			}
			if _, err := earlierFigures(file); err != nil {
				return err
			}
			// What has been measured before an error is told all the same.
			err = b.run(cmd.Context(), chosen)
			err = errors.Join(err, b.report.print(cmd.OutOrStdout()), b.report.save(file))
			if err == nil && pictures && len(b.report.Figures) > 0 {
				err = b.draw(cmd.Context(), file)
			}
			return err
		},
	}
	var names []string
	for _, m := range measurements() {
		names = append(names, m.name)
	}
	cmd.Flags().StringSliceVar(&only, "only", names, "what to measure")
	cmd.Flags().IntVar(&b.rounds, "rounds", 5, "how often each is measured, in turn with the other")
	cmd.Flags().IntVar(&b.most, "pods", 1000, "how many pods the largest load is")
	cmd.Flags().StringVar(&file, "json", "dist/bench/figures.json", "where the figures go as JSON")
	cmd.Flags().BoolVar(&pictures, "pictures", false, "draw the figures beside the JSON")
	cmd.Flags().StringVar(&b.root, "root", ".", "the repository")
	cmd.Flags().StringVar(&b.sshd, "sshd", "/usr/sbin/sshd", "OpenSSH's server, for the launch")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(harness.ExitCode(err))
	}
}

// measurement is one thing that is measured; it adds its figures to the report.
type measurement struct {
	name    string
	measure func(*bench, context.Context) error
	// needs says what is missing, before anything is started; nil if nothing
	// can be.
	needs func(*bench) error
	// alone tells that it needs no control plane and no Slurm.
	alone bool
}

func measurements() []measurement {
	return []measurement{
		{"start", (*bench).measureStart, nil, false},
		{"completion", (*bench).measureCompletion, nil, false},
		{"exec", (*bench).measureExec, nil, false},
		{"logs", (*bench).measureLogs, nil, false},
		{"mpi", (*bench).measureMPI, needsCompiler, false},
		{"launch", (*bench).measureLaunch, (*bench).needsOpenSSH, false},
		{"trainjobs", (*bench).measureTrainJobs, nil, false},
		{"load", (*bench).measureLoad, nil, false},
		{"flux", (*bench).measureFlux, nil, true},
	}
}

func choose(only []string) ([]measurement, error) {
	var chosen []measurement
	var names []string
	for _, m := range measurements() {
		names = append(names, m.name)
		if slices.Contains(only, m.name) {
			chosen = append(chosen, m)
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--only %s is not known; there are %s", name, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// newBench measures as make bench does.
func newBench() *bench {
	return &bench{name: "bench", execRounds: 20, window: 20 * time.Second, settle: 15 * time.Second, report: newReport()}
}

type bench struct {
	name         string // of the virtual node and all that is its own
	rounds, most int
	execRounds   int           // how often a program that does nothing is run in a pod, and in a job
	window       time.Duration // for which what nothing changes costs is watched, each of some times
	settle       time.Duration // from a start on, which is no steady state
	root, sshd   string
	dir          string // where all but Slurm's files go
	report       *report
	env          *harness.Environment
	config       *rest.Config
	pods         typedcorev1.PodInterface
}

// check says what cannot be measured.
func (b *bench) check() error {
	switch {
	case b.rounds < 1:
		return fmt.Errorf("--rounds must be at least 1, not %d", b.rounds)
	case b.most < 1:
		return fmt.Errorf("--pods must be at least 1, not %d", b.most)
	}
	return nil
}

func (b *bench) run(ctx context.Context, chosen []measurement) (err error) {
	if err := b.check(); err != nil {
		return err
	}
	for _, m := range chosen {
		if m.needs == nil {
			continue
		}
		if err := m.needs(b); err != nil {
			return fmt.Errorf("preparing to measure %s: %w", m.name, err)
		}
	}
	if !slices.ContainsFunc(chosen, func(m measurement) bool { return !m.alone }) {
		return b.measure(ctx, chosen)
	}
	root, err := filepath.Abs(b.root)
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	if b.dir, err = harness.RunDir(ctx, root, b.name, os.Stderr); err != nil {
		return err
	}
	b.env, err = harness.Start(ctx, harness.Options{
		Root: root, Name: b.name, Dir: b.dir, WorkloadManager: "slurm", Nodes: nodes, Progress: os.Stderr,
	})
	if err != nil {
		return errors.Join(harness.Interrupted(ctx, err), os.RemoveAll(b.dir))
	}
	defer func() {
		stopped := b.env.Stop(context.WithoutCancel(ctx))
		if stopped == nil { // else the next run clears all of it away
			stopped = os.RemoveAll(b.dir)
		}
		err = errors.Join(err, stopped)
	}()
	if b.config, err = clientcmd.BuildConfigFromFlags("", b.env.ControlPlane.Kubeconfig()); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(b.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	b.pods = clientset.CoreV1().Pods(metav1.NamespaceDefault)
	return b.measure(ctx, chosen)
}

// draw has the pictures of the figures in a file drawn beside it.
func (b *bench) draw(ctx context.Context, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("finding the figures: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(b.root, "test", "plot"), ".", file)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return harness.Interrupted(ctx, fmt.Errorf("drawing the figures of %s: %w", file, err))
	}
	return nil
}

func (b *bench) measure(ctx context.Context, chosen []measurement) error {
	var errs []error
	for _, m := range chosen {
		fmt.Fprintf(os.Stderr, "measuring %s\n", m.name)
		err := m.measure(b, ctx)
		if ctx.Err() != nil {
			return errors.Join(append(errs, harness.Interrupted(ctx, err))...)
		}
		if err != nil {
			err = fmt.Errorf("measuring %s: %w", m.name, err)
			fmt.Fprintln(os.Stderr, err) // what follows may take long
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// poll asks until the answer is yes.
func poll(ctx context.Context, done func() (bool, error)) error {
	return pollFor(ctx, time.Minute, 10*time.Millisecond, done)
}

func pollFor(ctx context.Context, patience, interval time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
