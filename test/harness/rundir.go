package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/test/slurm"
)

// RunDir makes the directory of this process's run: /var/lib/gangline-dev/KIND/PID. Before
// that it clears away what runs that were killed have left: processes, mounts and files.
// What it cannot clear away is told, and holds nobody up.
func RunDir(ctx context.Context, root, kind string, progress io.Writer) (string, error) {
	r := runs{base: "/var/lib/gangline-dev", memory: "/dev/shm", bin: filepath.Join(root, "bin")}
	err := os.MkdirAll(filepath.Join(r.base, kind), 0o755)
	if err == nil {
		err = unix.Access(filepath.Join(r.base, kind), unix.W_OK)
	}
	if err != nil {
		return "", fmt.Errorf("making a directory in %s, which needs root: %w", filepath.Join(r.base, kind), err)
	}
	err = r.sweep(ctx, "bench", "benchshort", "scale", "e2e")
	if os.Geteuid() == 0 { // nobody else can have started one
		err = errors.Join(err, slurm.RemoveLeft())
	}
	if err != nil {
		fmt.Fprintln(progress, "clearing away what an earlier run has left:", err)
	}
	dir := filepath.Join(r.base, kind, strconv.Itoa(os.Getpid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the run's directory: %w", err)
	}
	return dir, nil
}

// MemoryDir makes a directory in memory that goes with a run's own.
func MemoryDir(dir string) (string, error) {
	memory := runs{memory: "/dev/shm"}.memoryOf(dir)
	if err := os.MkdirAll(memory, 0o755); err != nil {
		return "", fmt.Errorf("making the run's directory in memory: %w", err)
	}
	return memory, nil
}

// runs are those of programs that have a directory each, by the number of its process.
type runs struct{ base, memory, bin string }

func (r runs) memoryOf(dir string) string {
	return filepath.Join(r.memory, "gangline-"+filepath.Base(filepath.Dir(dir))+"-"+filepath.Base(dir))
}

// sweep clears away the runs of some kinds whose process is no more. One of this process's
// number is of an earlier process: this one has begun nothing yet.
func (r runs) sweep(ctx context.Context, kinds ...string) error {
	var errs []error
	for _, kind := range kinds {
		entries, err := os.ReadDir(filepath.Join(r.base, kind))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid != os.Getpid() && alive(pid) {
				continue
			}
			errs = append(errs, r.clear(ctx, filepath.Join(r.base, kind, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// alive tells whether a process runs; one that has ended and that nobody waited for has no
// command line any more.
func alive(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(line) > 0
}

// clear ends what runs of a run and removes its files: not before nothing is mounted among
// them, for what is there may be somebody else's.
func (r runs) clear(ctx context.Context, dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, at := range mounts {
		thaw(at) // or what waits to write there would not end
	}
	for _, programs := range []string{dir, r.memoryOf(dir)} {
		if err := endPrograms(programs); err != nil {
			return err
		}
	}
	states, err := filepath.Glob(filepath.Join(dir, "*", "devcluster.json"))
	if err != nil {
		return err
	}
	for _, state := range states {
		if err := (&ControlPlane{bin: r.bin, dir: filepath.Dir(state)}).Stop(ctx); err != nil {
			return err
		}
	}
	for _, at := range mounts {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmounting %s: %w", at, err)
		}
	}
	return errors.Join(os.RemoveAll(r.memoryOf(dir)), os.RemoveAll(dir))
}

// mountsBelow are the mount points below a directory, the innermost first.
func mountsBelow(dir string) (points []string, err error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("looking for mounts: %w", err)
	}
	const point = 4 // see proc(5)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > point && strings.HasPrefix(fields[point], dir+"/") {
			points = append(points, fields[point])
		}
	}
	slices.Reverse(points)
	return points, nil
}

// thaw thaws a filesystem that may be frozen.
func thaw(at string) {
	const fiThaw = 0xC0045878 // linux/fs.h
	if dir, err := os.Open(at); err == nil {
		_ = unix.IoctlSetInt(int(dir.Fd()), fiThaw, 0) // most are not frozen
		_ = dir.Close()
	}
}
