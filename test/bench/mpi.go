package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed testdata/pingpong.c
var pingpongSource []byte

// compiler is Open MPI's, where there are others.
const compiler = "mpicc.openmpi"

// ranksPerNode lets one run see both paths: within a node, and between nodes.
const ranksPerNode = 2

// figures are what pingpong prints.
var figures = []struct {
	name, text, unit string
	goal             *goal
}{
	{"latency-within", "latency within a pod", "µs", nil},
	{"bandwidth-within", "bandwidth within a pod", "MB/s", ratioAtLeast(0.98)},
	{"latency-between", "latency between pods", "µs", nil},
	{"bandwidth-between", "bandwidth between pods", "MB/s", ratioAtLeast(0.98)},
	{"allreduce-small", "allreduce of 8 bytes", "µs", nil},
	{"allreduce-large", "allreduce of 1 MiB", "ms", nil},
}

// measureMPI reports how MPI communicates in gangs of different sizes, next to
// mpirun in a job of Slurm's on the same nodes.
func (b *bench) measureMPI(ctx context.Context) error {
	program := filepath.Join(b.env.Slurm.SharedDir(), "pingpong")
	compile := exec.CommandContext(ctx, compiler, "-O2", "-x", "c", "-o", program, "-")
	compile.Stdin = bytes.NewReader(pingpongSource)
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the MPI program: %w: %s", err, out)
	}
	for _, pods := range []int{2, 4} {
		err := b.withGang(ctx, fmt.Sprintf("mpi-%d", pods), pods, func(g gang) error {
			return g.compareMPI(ctx, pods, program)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func needsCompiler(*bench) error {
	if _, err := exec.LookPath(compiler); err != nil {
		return fmt.Errorf("looking for Open MPI's compiler: %w (apt-get install libopenmpi-dev)", err)
	}
	return nil
}

func (g gang) compareMPI(ctx context.Context, pods int, program string) error {
	// The same transports for both. The nodes of this cluster are one machine:
	// what is bound to the first core of each would share one core.
	argv := []string{"mpirun", "-np", strconv.Itoa(pods * ranksPerNode), "--map-by", fmt.Sprintf("ppr:%d:node", ranksPerNode), "--bind-to", "none",
		"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "mpi_yield_when_idle", "1",
		program, strconv.Itoa(ranksPerNode)}
	bare := func() (map[string]float64, error) { return g.bareMPI(ctx, pods, argv) }
	ours := func() (map[string]float64, error) {
		out, err := g.run(ctx, argv...)
		if err != nil {
			return nil, err
		}
		return parseFigures(out)
	}
	results := make([]figure, len(figures))
	for i, f := range figures {
		results[i] = figure{What: f.text, Unit: f.unit, Goal: f.goal}
	}
	for round := range g.rounds + 1 {
		one, other, err := inTurn(round, bare, ours)
		if err != nil {
			return err
		}
		if round == 0 {
			continue // the first warms up
		}
		for i, f := range figures {
			results[i].add(one[f.name], other[f.name])
		}
		fmt.Fprintf(os.Stderr, "round %d, %d pods: ratio of the bandwidths %.2f within, %.2f between\n", round, pods,
			other["bandwidth-within"]/one["bandwidth-within"], other["bandwidth-between"]/one["bandwidth-between"])
	}
	g.report.add(fmt.Sprintf("mpi, %d pods of %d ranks, a node each (bare: mpirun in a batch job)", pods, ranksPerNode), results...)
	return nil
}

// bareMPI runs mpirun in a batch job, over Open MPI's own launcher for Slurm.
func (g gang) bareMPI(ctx context.Context, pods int, argv []string) (map[string]float64, error) {
	out := filepath.Join(g.env.Slurm.SharedDir(), "mpi.out")
	script := "#!/bin/sh\n" + strings.Join(argv, " ") + "\n"
	_, err := g.env.Slurm.Submit(ctx, script, "--wait", "--output="+out, "--nodelist="+g.nodes,
		fmt.Sprintf("--nodes=%d", pods), fmt.Sprintf("--ntasks-per-node=%d", ranksPerNode), "--cpus-per-task=1")
	text, readErr := os.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("bare mpirun: %w: %s", err, text)
	}
	if readErr != nil {
		return nil, fmt.Errorf("bare mpirun: %w", readErr)
	}
	return parseFigures(string(text))
}

// parseFigures reads lines of "name value", and wants all figures.
func parseFigures(text string) (map[string]float64, error) {
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if f, err := strconv.ParseFloat(value, 64); err == nil {
				values[name] = f
			}
		}
	}
	for _, f := range figures {
		if values[f.name] <= 0 {
			return nil, fmt.Errorf("the MPI program did not print %s but: %s", f.name, text)
		}
	}
	return values, nil
}

// inTurn calls both, the one first in even rounds and the other first in odd
// ones: what slows the machine for a while slows both.
func inTurn[T any](round int, bare, ours func() (T, error)) (one, other T, err error) {
	if round%2 == 0 {
		if one, err = bare(); err == nil {
			other, err = ours()
		}
		return one, other, err
	}
	if other, err = ours(); err == nil {
		one, err = bare()
	}
	return one, other, err
}
