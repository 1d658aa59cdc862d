package mpirun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/provider/spool"
)

// exitTold is the exit status of a rank that the workload manager ended: it does
// so when another one has failed, whose status is to be the highest of all.
const exitTold = 1

// numberVariables hold a rank's number, by workload manager.
func numberVariables() []string { return []string{"SLURM_PROCID"} }

// RankMain is the process that a workload manager starts for a rank. It has the
// rank started in its pod, with its own files, and lives as long as that. dir is
// the gang's directory in the spool.
func RankMain(ctx context.Context, dir spool.Dir, env []string) (int, error) {
	c := call{env: env}
	number := -1
	for _, name := range numberVariables() {
		if n, err := strconv.Atoi(c.getenv(name)); err == nil {
			number = n
		}
	}
	orders, err := launcher.DecodeStepOrders(c.getenv(launcher.StepVariable))
	if err != nil {
		return 0, err
	}
	run, ok := orders.Rank(number)
	if !ok {
		return 0, fmt.Errorf("the step has no rank %d", number)
	}
	var status spool.Status
	if _, err := spool.Read(dir.Status(run.Slot), &status); err != nil {
		return 0, err
	}
	rank := control.Rank{
		Step:    orders.Step,
		Program: orders.Programs[run.Program], Env: launcher.RankVariables(env),
		PMI: orders.PMI, Number: number, Size: orders.Size(),
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	// PMI's connection is an open file (PMI_FD); PMIx's is an address.
	if fd, err := strconv.Atoi(c.getenv(pmiFile)); err == nil {
		rank.Files = []string{pmiFile}
		files = append(files, os.NewFile(uintptr(fd), pmiFile)) //nolint:gosec // a file descriptor
	}
	var told atomic.Bool
	exit, err := control.Do(ctx, control.Name(status.Agent.Instance, run.Slot), control.Call{
		Request: control.Request{Rank: &rank}, Files: files, Signals: noted(ctx, &told),
	})
	switch {
	case told.Load() && (errors.Is(err, control.ErrGone) || killed(exit)):
		return exitTold, nil
	case err != nil:
		return 0, fmt.Errorf("rank %d: %w", number, err)
	}
	return exit, nil
}

// pmiFile is the variable that holds the number of PMI's open file.
const pmiFile = "PMI_FD"

// noted notes that a signal to end has come by.
func noted(ctx context.Context, told *atomic.Bool) <-chan string {
	in, out := signals(ctx), make(chan string)
	go func() {
		for {
			select {
			case name := <-in:
				told.Store(told.Load() || name == "TERM" || name == "INT")
				select {
				case out <- name:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// killed tells an exit status of a process that a signal to end has ended.
func killed(exit int) bool {
	return exit == 128+int(unix.SIGTERM) || exit == 128+int(unix.SIGKILL) || exit == 128+int(unix.SIGINT)
}
