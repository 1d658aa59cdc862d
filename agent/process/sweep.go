package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sweep kills all processes whose environment has an entry that starts with
// the cookie, until there is none. Processes that belong to another user are
// not seen, nor those that hide their environment. It gives up when the context
// ends: a process in an uninterruptible wait dies only when its I/O does.
func Sweep(ctx context.Context, cookie string) error {
	return killUntilNone(ctx, func() ([]int, error) { return withCookie(cookie) })
}

// KillDescendants kills all descendants of this process that can be found by
// their parents and reaps those that are its children, until none is left. No
// Table may run any more.
func KillDescendants(ctx context.Context) error {
	return killUntilNone(ctx, func() ([]int, error) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return nil, nil
			}
			if err == nil && pid <= 0 {
				return descendants(os.Getpid())
			}
		}
	})
}

// killUntilNone kills what find finds. A process that is being killed cannot be
// waited for unless it is a child, so /proc is asked again until it is gone.
func killUntilNone(ctx context.Context, find func() ([]int, error)) error {
	pause := time.Millisecond
	for {
		pids, err := find()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // what is still there is found again
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes do not die, the first is %d: %w", len(pids), pids[0], ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, 100*time.Millisecond)
		}
	}
}

func withCookie(cookie string) ([]int, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	want := []byte(cookie)
	return filter(pids, func(pid int) bool {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err != nil {
			return false // gone, or somebody else's
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.HasPrefix(entry, want) {
				return true
			}
		}
		return false
	}), nil
}

func descendants(of int) ([]int, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, pid := range pids {
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[of]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found, nil
}

// parentOf reads the fourth field of /proc/<pid>/stat. The second, the command
// in parentheses, may hold anything (see proc(5)).
func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}

// all lists the numbers of all processes but this one.
func all() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer proc.Close() //nolint:errcheck // only read
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func filter(pids []int, keep func(int) bool) []int {
	var kept []int
	for _, pid := range pids {
		if keep(pid) {
			kept = append(kept, pid)
		}
	}
	return kept
}
