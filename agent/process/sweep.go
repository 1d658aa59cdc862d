package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mark is what tells processes that belong together from others.
type Mark struct {
	// Entry is one of the environment's entries, as a whole.
	Entry string
	// Prefix is how one of them begins. It may be given in place of Entry.
	Prefix string
	// Namespaces are mount namespaces; what runs in one of them is marked
	// whatever its environment is.
	Namespaces []uint64
}

// Sweep kills all marked processes, until there is none. Processes that belong
// to another user are not seen. It gives up when the context ends: a process in
// an uninterruptible wait dies only when its I/O does.
func Sweep(ctx context.Context, m Mark) error {
	return killUntilNone(ctx, func() ([]int, error) { return marked(m) })
}

// SweepDescendants kills all descendants of this process that can be found by
// their parents, until none is left. A Table must run, which reaps them.
func SweepDescendants(ctx context.Context) error {
	return killUntilNone(ctx, func() ([]int, error) { return descendants(os.Getpid()) })
}

// KillDescendants is SweepDescendants for a program without a Table: it reaps
// its children itself, and no Table may run any more.
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

// marked lists the processes that have the mark. A process whose environment is
// empty is looked at again until it is clear that it has none.
func marked(m Mark) ([]int, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	var found []int
	for deadline := time.Now().Add(execWindow); ; {
		var unclear []int
		for _, pid := range pids {
			switch has, clear := m.of(pid); {
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

// of tells whether a process has the mark, and whether that is clear.
func (m Mark) of(pid int) (has, clear bool) {
	if len(m.Namespaces) > 0 {
		number, ok := mountNamespaceOf(strconv.Itoa(pid))
		if ok && slices.Contains(m.Namespaces, number) {
			return true, true
		}
	}
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false, true // gone, or somebody else's
	}
	if len(env) == 0 {
		parent, ok := parentOf(pid)
		return false, !ok || parent == kthreadd || pid == kthreadd
	}
	for entry := range strings.SplitSeq(string(env), "\x00") {
		if m.isEntry(entry) {
			return true, true
		}
	}
	return false, true
}

func (m Mark) isEntry(entry string) bool {
	return m.Entry != "" && entry == m.Entry || m.Prefix != "" && strings.HasPrefix(entry, m.Prefix)
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
