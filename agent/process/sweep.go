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

// execWindow is how long the environment of a process may look empty while it
// executes another program (the kernel has no new one to show yet).
const execWindow = 20 * time.Millisecond

// withCookie lists the processes that carry the cookie. A process whose
// environment is empty is looked at again until it is clear that it has none.
func withCookie(cookie string) ([]int, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	var found []int
	for deadline := time.Now().Add(execWindow); ; {
		var unclear []int
		for _, pid := range pids {
			switch has, clear := carries(pid, []byte(cookie)); {
			case has:
				found = append(found, pid)
			case !clear:
				unclear = append(unclear, pid)
			}
		}
		if len(unclear) == 0 || time.Now().After(deadline) {
			return found, nil
		}
		pids = unclear
		time.Sleep(time.Millisecond) // the kernel tells nobody that an exec is over
	}
}

// carries tells whether a process has the cookie, and whether that is clear.
func carries(pid int, cookie []byte) (has, clear bool) {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false, true // gone, or somebody else's
	}
	if len(env) == 0 {
		parent, ok := parentOf(pid)
		return false, !ok || parent == kthreadd || pid == kthreadd
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.HasPrefix(entry, cookie) {
			return true, true
		}
	}
	return false, true
}

// kthreadd is the parent of the kernel's own threads, which have no
// environment. (In a PID namespace there are none, and nothing has to be told
// apart.)
const kthreadd = 2

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
