package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

// The shape of a gang: a pod takes more than half of a node's CPUs, so each has
// a node of its own, and leaves room for a bare job beside it.
const (
	nodes    = 4
	cpus     = 5
	gpus     = 2
	bareCPUs = 3
	mpiSlots = 8
)

// jobSetLabel and a name select a JobSet's pods.
const jobSetLabel = "jobset.sigs.k8s.io/jobset-name="

// manifest is a JobSet of pods that run a shell's line.
func (b *bench) manifest(name string, pods, gpus int, line string) string {
	return fmt.Sprintf(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s}
spec:
  replicatedJobs:
  - name: worker
    template:
      spec:
        parallelism: %d
        completions: %[2]d
        template:
          metadata: {annotations: {%s: "%d"}}
          spec:
            restartPolicy: Never
            nodeSelector: {kubernetes.io/hostname: %s}
            tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
            containers:
            - name: worker
              image: host
              command: [sh, -c, "%s"]
              resources: {requests: {cpu: "%d", memory: 256Mi}, limits: {nvidia.com/gpu: "%d"}}
`, name, pods, wellknown.AnnotationMPISlots, mpiSlots, b.name, line, cpus, gpus)
}

// gang is a running JobSet whose pods wait.
type gang struct {
	*bench
	// first is the pod with index 0, and nodes the Slurm nodes of all, as a
	// node list of Slurm's.
	first, nodes string
}

// withGang starts a gang, calls use, and ends it.
func (b *bench) withGang(ctx context.Context, name string, pods int, use func(gang) error) (err error) {
	line := "trap 'exit 0' TERM; sleep 3600 & wait"
	if _, err := b.env.Kubectl(ctx, b.manifest(name, pods, 0, line), "apply", "-f", "-"); err != nil {
		return err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		_, gone := b.env.Kubectl(ctx, "", "delete", "jobset", name, "--wait=false")
		err = errors.Join(err, gone, b.quiet(ctx))
	}()
	g := gang{bench: b}
	allocation := ""
	err = pollFor(ctx, time.Minute, 200*time.Millisecond, func() (bool, error) {
		list, err := b.pods.List(ctx, metav1.ListOptions{LabelSelector: jobSetLabel + name})
		if err != nil {
			return false, fmt.Errorf("listing the pods: %w", err)
		}
		running := 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
			if p.Annotations[batchv1.JobCompletionIndexAnnotation] == "0" {
				g.first, allocation = p.Name, p.Annotations[wellknown.AnnotationAllocation]
			}
		}
		return running == pods, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the gang %s: %w", name, err)
	}
	jobs, err := b.env.Slurm.Squeue(ctx)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if job.Name == allocation {
			g.nodes = job.Nodes
		}
	}
	return use(g)
}

// run runs a program in the gang's first pod and returns its output.
func (g gang) run(ctx context.Context, argv ...string) (string, error) {
	return g.env.Kubectl(ctx, "", append([]string{"exec", g.first, "--"}, argv...)...)
}

// quiet waits until Slurm has nothing to do.
func (b *bench) quiet(ctx context.Context) error {
	return poll(ctx, b.idle(ctx))
}

func (b *bench) idle(ctx context.Context) func() (bool, error) {
	return func() (bool, error) {
		jobs, err := b.env.Slurm.Run(ctx, "squeue", "-h", "-t", "pending,running,completing")
		return jobs == "", err
	}
}
