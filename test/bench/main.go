// Command bench measures how fast a gang of pods starts, next to a bare sbatch
// of the same shape on the same Slurm in the same run, and how fast a burst of
// TrainJobs becomes JobSets. It prints ratios and counts where it can: the times
// themselves depend on the machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gangline/gangline/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure how fast a gang starts, next to bare sbatch", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&b.rounds, "rounds", 5, "how often each start is measured, in turn; 0 for none")
	cmd.Flags().StringVar(&b.root, "root", ".", "the repository")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	rounds int
	root   string
	env    *harness.Environment
	pods   typedcorev1.PodInterface
}

// tasks and the rest are the shape: one pod or task a node.
const (
	tasks = 4
	cpus  = 5
	gpus  = 2
)

func (b *bench) run(ctx context.Context) (err error) {
	root, err := filepath.Abs(b.root)
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	const dir = "/var/lib/gangline-dev/bench"
	b.env, err = harness.Start(ctx, harness.Options{
		Root: root, Name: "bench", Dir: dir, WorkloadManager: "slurm", Nodes: tasks, Progress: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.env.Stop(context.WithoutCancel(ctx)), os.RemoveAll(dir))
	}()
	config, err := clientcmd.BuildConfigFromFlags("", b.env.ControlPlane.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	b.pods = clientset.CoreV1().Pods(metav1.NamespaceDefault)
	var bare, gang, ratio []float64
	for round := range b.rounds + 1 {
		if b.rounds == 0 {
			return b.runBurst(ctx, config)
		}
		one, err := b.bareSlurm(ctx, round)
		if err != nil {
			return err
		}
		other, err := b.jobSet(ctx, round)
		if err != nil {
			return err
		}
		if round == 0 {
			continue // the first warms up
		}
		bare, gang, ratio = append(bare, one), append(gang, other), append(ratio, other/one)
		fmt.Fprintf(os.Stderr, "round %d: sbatch %.2f s, JobSet %.2f s\n", round, one, other)
	}
	fmt.Printf("%-52s %8s %8s %8s\n", fmt.Sprintf("%d tasks on %d nodes, %d CPUs and %d GPUs each", tasks, tasks, cpus, gpus), "min", "median", "max")
	row("sbatch + srun: all tasks started (s)", bare)
	row("kubectl apply: all pods Running (s)", gang)
	row("ratio", ratio)
	return b.runBurst(ctx, config)
}

func row(name string, values []float64) {
	slices.Sort(values)
	fmt.Printf("%-52s %8.2f %8.2f %8.2f\n", name, values[0], values[len(values)/2], values[len(values)-1])
}

// bareSlurm is the time from sbatch to the last task's first instruction.
func (b *bench) bareSlurm(ctx context.Context, round int) (float64, error) {
	mark := filepath.Join(b.env.Slurm.SharedDir(), fmt.Sprintf("bench-%d-", round))
	script := fmt.Sprintf("#!/bin/sh\nsrun sh -c ': > %s$SLURM_PROCID; sleep 1'\n", mark)
	began := time.Now()
	id, err := b.env.Slurm.Submit(ctx, script, fmt.Sprintf("--ntasks=%d", tasks), fmt.Sprintf("--cpus-per-task=%d", cpus), fmt.Sprintf("--gpus-per-task=%d", gpus))
	if err != nil {
		return 0, fmt.Errorf("bare sbatch: %w", err)
	}
	err = poll(ctx, func() (bool, error) {
		marks, err := filepath.Glob(mark + "*")
		return len(marks) == tasks, err
	})
	took := time.Since(began).Seconds()
	if err != nil {
		return 0, fmt.Errorf("waiting for the tasks: %w", err)
	}
	_, err = b.env.Slurm.WaitJob(ctx, id, "COMPLETED")
	return took, err
}

// jobSet is the time from kubectl apply to the last pod's Running in the API
// server.
func (b *bench) jobSet(ctx context.Context, round int) (float64, error) {
	name := fmt.Sprintf("bench-%d", round)
	manifest := fmt.Sprintf(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s}
spec:
  replicatedJobs:
  - name: worker
    template:
      spec:
        parallelism: %d
        completions: %d
        template:
          spec:
            restartPolicy: Never
            nodeSelector: {kubernetes.io/hostname: bench}
            tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
            containers:
            - name: worker
              image: host
              command: [sleep, "3"]
              resources: {requests: {cpu: "%d", memory: 256Mi}, limits: {nvidia.com/gpu: "%d"}}
`, name, tasks, tasks, cpus, gpus)
	pods, err := b.pods.Watch(ctx, metav1.ListOptions{LabelSelector: "jobset.sigs.k8s.io/jobset-name=" + name})
	if err != nil {
		return 0, fmt.Errorf("watching the pods: %w", err)
	}
	defer pods.Stop()
	began := time.Now()
	if _, err := b.env.Kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
		return 0, err
	}
	running := map[string]bool{}
	for event := range pods.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			running[pod.Name] = true
		}
		if len(running) == tasks {
			break
		}
	}
	took := time.Since(began).Seconds()
	if len(running) < tasks {
		return 0, errors.New("the watch of the pods ended before all of them ran")
	}
	return took, poll(ctx, func() (bool, error) {
		jobs, err := b.env.Slurm.Run(ctx, "squeue", "-h", "-t", "pending,running,completing")
		return jobs == "", err
	})
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
