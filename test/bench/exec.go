package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// measureExec reports how long kubectl exec takes, next to a step of srun in the same
// allocation.
func (b *bench) measureExec(ctx context.Context) error {
	return b.withGang(ctx, "exec", 1, func(g gang) error {
		job, err := g.env.Slurm.Run(ctx, "squeue", "--noheader", "--states=running", "--format=%i")
		if err != nil {
			return err
		}
		kubectl, err := g.kubectl()
		if err != nil {
			return err
		}
		bare := func() (float64, error) {
			return timed(func() error {
				_, err := g.env.Slurm.Run(ctx, "srun", "--jobid="+strings.TrimSpace(job), "--overlap", "--ntasks=1", "true")
				return err
			})
		}
		call := func(args ...string) (float64, error) {
			return timed(func() error {
				out, err := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", g.env.ControlPlane.Kubeconfig()}, args...)...).CombinedOutput()
				if err != nil {
					return fmt.Errorf("kubectl %s: %w: %s", args[0], err, out)
				}
				return nil
			})
		}
		ours := func() (float64, error) { return call("exec", g.first, "--", "true") }
		f := figure{What: "kubectl exec POD -- true (bare: srun --overlap true)", Unit: "s"}
		alone := figure{What: "  of which kubectl takes to ask for the pod", Unit: "s"}
		for round := range b.execRounds + 1 {
			one, other, err := inTurn(round, bare, ours)
			if err != nil {
				return err
			}
			if round == 0 {
				continue // the first warms up
			}
			f.add(one, other)
			asking, err := call("get", "pod", g.first)
			if err != nil {
				return err
			}
			alone.Ours = append(alone.Ours, asking)
		}
		b.report.add("exec", f, alone)
		return nil
	})
}

func timed(run func() error) (float64, error) {
	began := time.Now()
	err := run()
	return time.Since(began).Seconds(), err
}

// kubectl is the path of the dev cluster's.
func (b *bench) kubectl() (string, error) {
	path := b.root + "/bin/kubectl"
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("looking for kubectl: %w", err)
	}
	return path, nil
}
