package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// measureStart reports how long a gang takes until all its pods run, next to a
// bare sbatch of the same shape.
func (b *bench) measureStart(ctx context.Context) error {
	c := figure{What: fmt.Sprintf("gang of %d pods, %d CPUs and %d GPUs each: all run (bare: sbatch + srun)", nodes, cpus, gpus), Unit: "s", Goal: ratioAtMost(2)}
	for round := range b.rounds + 1 {
		one, other, err := inTurn(round,
			func() (float64, error) { return b.bareSlurm(ctx, round) },
			func() (float64, error) { return b.jobSet(ctx, round) })
		if err != nil {
			return err
		}
		if round == 0 {
			continue // the first warms up
		}
		c.add(one, other)
		fmt.Fprintf(os.Stderr, "round %d: sbatch %.2f s, JobSet %.2f s\n", round, one, other)
	}
	b.report.add("start", c)
	return nil
}

// bareSlurm is the time from sbatch to the last task's first instruction.
func (b *bench) bareSlurm(ctx context.Context, round int) (float64, error) {
	mark := filepath.Join(b.env.Slurm.SharedDir(), fmt.Sprintf("bench-%d-", round))
	script := fmt.Sprintf("#!/bin/sh\nsrun sh -c ': > %s$SLURM_PROCID; sleep 1'\n", mark)
	began := time.Now()
	id, err := b.env.Slurm.Submit(ctx, script, fmt.Sprintf("--ntasks=%d", nodes), fmt.Sprintf("--cpus-per-task=%d", cpus), fmt.Sprintf("--gpus-per-task=%d", gpus))
	if err != nil {
		return 0, fmt.Errorf("bare sbatch: %w", err)
	}
	err = poll(ctx, func() (bool, error) {
		marks, err := filepath.Glob(mark + "*")
		return len(marks) == nodes, err
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
	pods, err := b.watchPods(ctx, jobSetLabel+name)
	if err != nil {
		return 0, fmt.Errorf("watching the pods: %w", err)
	}
	defer pods.Stop()
	began := time.Now()
	if _, err := b.env.Kubectl(ctx, b.manifest(name, nodes, gpus, "sleep 3"), "apply", "-f", "-"); err != nil {
		return 0, err
	}
	soon, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	if err := await(soon, pods, nodes, started); err != nil {
		return 0, fmt.Errorf("waiting for the gang's %d pods to run: %w", nodes, err)
	}
	took := time.Since(began).Seconds()
	return took, b.quiet(ctx)
}

// startsWithin is how long a gang may take to start at all: it finds what hangs, not what
// is slow.
const startsWithin = 2 * time.Minute

// started tells that a pod runs, or has run. One that has failed never will.
func started(p *corev1.Pod) (bool, error) {
	if p.Status.Phase == corev1.PodFailed {
		return false, fmt.Errorf("pod %s failed: %s %s", p.Name, p.Status.Reason, p.Status.Message)
	}
	return p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded, nil
}
