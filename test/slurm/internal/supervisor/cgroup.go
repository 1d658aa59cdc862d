package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// CheckCgroups says whether Slurm can track and limit jobs with this machine's cgroups.
func CheckCgroups() error {
	for _, controller := range []string{"memory", "freezer", "cpuset"} {
		if _, err := os.Stat(filepath.Join(cgroupRoot, controller, "cgroup.procs")); err != nil {
			return fmt.Errorf("cgroup mode needs the cgroup v1 %s controller, for Slurm 22.05 can use version 2 only with systemd: %w",
				controller, err)
		}
	}
	return nil
}

// checkFreeCgroups fails when another cluster has a node of the same name: slurmd names
// its cgroups after the node.
func (s *supervisor) checkFreeCgroups() error {
	for _, n := range s.nodes {
		if err := removeCgroups(n.name); err != nil {
			return fmt.Errorf("the cgroups of %s are in use, by another cluster? give this one a node prefix of its own: %w",
				n.name, err)
		}
	}
	return nil
}

// removeCgroups removes what slurmd leaves behind in every cgroup hierarchy.
func removeCgroups(node string) error {
	tops, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "slurm_"+node))
	if err != nil {
		return fmt.Errorf("list cgroups: %w", err)
	}
	var failed []error
	for _, top := range tops {
		failed = append(failed, removeTree(top))
	}
	return errors.Join(failed...)
}

// removeTree removes a cgroup and those below it, deepest first. The kernel may take a
// moment to let go of one whose last process has just ended.
func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // what is gone need not be removed
	})
	if err != nil {
		return fmt.Errorf("walk %s: %w", top, err)
	}
	slices.Reverse(dirs)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, dir := range dirs {
		if err := removeCgroup(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroup(ctx context.Context, dir string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if procs, readErr := os.ReadFile(filepath.Join(dir, "cgroup.procs")); readErr == nil && len(procs) > 0 {
			return fmt.Errorf("remove cgroup %s: processes in it: %w", dir, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		case <-tick.C:
		}
	}
}
