package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/test/slurm/internal/machine"
	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// Stop takes the cluster in dir down, whatever state it is in: it asks its supervisor,
// kills one that does not obey, and removes what a dead one left. Files stay.
func Stop(ctx context.Context, dir string) error {
	p, err := plan.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		p = plan.Plan{Dir: dir, Subnet: -1} // it died before it wrote anything, or never was
		found, err := findProcesses(Name, dir)
		if err != nil || len(found) == 0 {
			return err
		}
	} else if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	if _, err := Call(ask, p.ControlSocket(), Request{Op: OpStop}); err == nil {
		if err := awaitLock(ask, p); err == nil {
			return finish(p)
		}
	}
	if err := killAll(p); err != nil {
		return err
	}
	if err := awaitLock(ctx, p); err != nil {
		return err
	}
	return finish(p)
}

// killAll kills the cluster's supervisor and machines, found by their command lines.
func killAll(p plan.Plan) error {
	for _, name := range []string{Name, machine.InitName} {
		pids, err := findProcesses(name, p.Dir)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
	}
	return nil
}

// awaitLock waits until no supervisor and no machine of the cluster is left.
func awaitLock(ctx context.Context, p plan.Plan) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		lock, err := Lock(p)
		if err == nil {
			lock.Close()
			machines, err := findProcesses(machine.InitName, p.Dir)
			if err != nil {
				return err
			}
			if len(machines) == 0 {
				return nil
			}
		} else if !errors.Is(err, ErrRunning) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cluster's end: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// finish removes what outlives the processes.
func finish(p plan.Plan) error {
	if p.Subnet < 0 {
		return nil
	}
	failed := []error{RemoveRootLink(p), removeSockets(p)}
	if p.Cgroup {
		for _, name := range p.NodeNames() {
			failed = append(failed, removeCgroups(name))
		}
	}
	return errors.Join(failed...)
}

// findProcesses finds live processes whose first two arguments are name and dir.
func findProcesses(name, dir string) ([]int, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(data), "\x00")
		if len(args) < 2 || args[0] != name || args[1] != dir {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, fmt.Errorf("read a process number: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
