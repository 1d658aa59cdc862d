package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// logLines of 100 bytes are so many that starting a process is nothing to it.
const (
	logLines = 300_000
	logMB    = 30.
)

// logProgram prints lines as fast as they are taken, and at last how long that took.
var logProgram = fmt.Sprintf("b=$(date +%%s%%N); yes %s | head -n %d; e=$(date +%%s%%N); echo took $((e-b))", strings.Repeat("x", 99), logLines)

// measureLogs reports how fast a pod can print, next to a batch job that prints to a
// file of the same filesystem, and how fast kubectl logs reads.
func (b *bench) measureLogs(ctx context.Context) error {
	written := figure{What: "a program prints 300,000 lines of 100 bytes (bare: to sbatch's --output)", Unit: "MB/s"}
	read := figure{What: "kubectl logs reads them", Unit: "MB/s"}
	for round := range b.rounds {
		var reading float64
		one, other, err := inTurn(round,
			func() (float64, error) { return b.jobPrints(ctx) },
			func() (rate float64, err error) { rate, reading, err = b.podPrints(ctx, round); return rate, err })
		if err != nil {
			return err
		}
		written.add(one, other)
		read.Ours = append(read.Ours, reading)
	}
	b.report.add("logs", written, read)
	return nil
}

func (b *bench) jobPrints(ctx context.Context) (float64, error) {
	out := filepath.Join(b.env.Slurm.SharedDir(), "lines.out")
	if _, err := b.env.Slurm.Submit(ctx, "#!/bin/sh\n"+logProgram+"\n", "--wait", "--ntasks=1", "--cpus-per-task=2", "--output="+out); err != nil {
		return 0, err
	}
	text, err := b.env.Slurm.Run(ctx, "tail", "-n1", out)
	if err != nil {
		return 0, err
	}
	return printRate(text)
}

func (b *bench) podPrints(ctx context.Context, round int) (written, read float64, err error) {
	pod := idlePod(fmt.Sprintf("logs-%d", round), b.env.Name, "logs")
	pod.Spec.Containers[0].Command = []string{"sh", "-c", logProgram}
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	if _, err := b.pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, 0, fmt.Errorf("creating the pod that prints: %w", err)
	}
	err = poll(ctx, func() (bool, error) {
		p, err := b.pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodSucceeded, err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("waiting for the pod that prints: %w", err)
	}
	text, err := b.env.Kubectl(ctx, "", "logs", "--tail=1", pod.Name)
	if err != nil {
		return 0, 0, err
	}
	if written, err = printRate(text); err != nil {
		return 0, 0, err
	}
	if read, err = b.readLogs(ctx, pod.Name); err != nil {
		return 0, 0, err
	}
	_, err = b.env.Kubectl(ctx, "", "delete", "pod", pod.Name)
	return written, read, err
}

// readLogs is how many MB/s kubectl logs prints. What the log's rotation has removed is
// not there to be read.
func (b *bench) readLogs(ctx context.Context, pod string) (float64, error) {
	kubectl, err := b.kubectl()
	if err != nil {
		return 0, err
	}
	var size counter
	took, err := timed(func() error {
		cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", b.env.ControlPlane.Kubeconfig(), "logs", pod)
		cmd.Stdout, cmd.Stderr = &size, os.Stderr
		return cmd.Run()
	})
	if err != nil {
		return 0, fmt.Errorf("kubectl logs: %w", err)
	}
	return readRate(int64(size), took)
}

// leastRead is how many bytes of a log must have been read for a rate to say something: a
// rotation leaves at least the last file.
const leastRead = 1 << 20

// readRate is in MB/s.
func readRate(bytes int64, seconds float64) (float64, error) {
	if bytes < leastRead {
		return 0, fmt.Errorf("kubectl logs printed %d bytes of some %.0f MB", bytes, logMB)
	}
	return float64(bytes) / 1e6 / seconds, nil
}

// printRate reads "took 123" nanoseconds.
func printRate(text string) (float64, error) {
	ns, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(text), "took "), 64)
	if err != nil || ns <= 0 {
		return 0, fmt.Errorf("the program that prints did not end with its time but with: %s", text)
	}
	return logMB / ns * 1e9, nil
}

// counter counts what is written to it.
type counter int64

var _ io.Writer = (*counter)(nil)

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }
