package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process is one line of /proc/<pid>/stat: what this package needs of it. The
// pid and the start time together name a process for ever (until a reboot).
type process struct {
	PID, Parent, Session int
	Zombie               bool
	// Start is in clock ticks since boot.
	Start uint64
}

// parseStat reads a process's stat line, as proc(5) describes it.
func parseStat(line string) (process, error) {
	// The command's name, in brackets, may hold anything.
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("%q is no line of /proc/<pid>/stat", line)
	}
	f := strings.Fields(line[end+1:]) // from the third field on
	const state, parent, session, start = 0, 1, 3, 19
	if len(f) <= start {
		return process{}, fmt.Errorf("%q is no line of /proc/<pid>/stat", line)
	}
	p := process{Zombie: f[state] == "Z" || f[state] == "X"}
	var errs [4]error
	p.PID, errs[0] = strconv.Atoi(strings.TrimSpace(line[:open]))
	p.Parent, errs[1] = strconv.Atoi(f[parent])
	p.Session, errs[2] = strconv.Atoi(f[session])
	p.Start, errs[3] = strconv.ParseUint(f[start], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return process{}, fmt.Errorf("%q is no line of /proc/<pid>/stat: %w", line, err)
	}
	return p, nil
}

// readProcess reports false for a process that is not there.
func readProcess(pid int) (process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil { // gone, or gone while it was read
		return process{}, false
	}
	p, err := parseStat(string(data))
	return p, err == nil
}

// alive tells whether p still runs. A zombie has ended.
func (p process) alive() bool {
	now, ok := readProcess(p.PID)
	return ok && now.Start == p.Start && !now.Zombie
}

// terminate asks p's process group for its end.
func (p process) terminate() error {
	if !p.alive() {
		return nil
	}
	return ignoreGone(syscall.Kill(-p.PID, syscall.SIGTERM))
}

// kill ends p, all of its session and all that descend from either. They are
// stopped first, all of them, so that none can start another meanwhile.
func (p process) kill() error {
	stopped := map[int]process{}
	for {
		family, err := p.family()
		if err != nil {
			return err
		}
		grown := false
		for _, member := range family {
			if _, known := stopped[member.PID]; known {
				continue
			}
			if err := ignoreGone(syscall.Kill(member.PID, syscall.SIGSTOP)); err != nil {
				return fmt.Errorf("stopping process %d: %w", member.PID, err)
			}
			stopped[member.PID], grown = member, true
		}
		if !grown {
			break
		}
	}
	var errs []error
	for pid := range stopped {
		if err := ignoreGone(syscall.Kill(pid, syscall.SIGKILL)); err != nil {
			errs = append(errs, fmt.Errorf("killing process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// family lists the processes of p's session and all their descendants.
func (p process) family() ([]process, error) {
	if now, ok := readProcess(p.PID); ok && now.Start != p.Start {
		return nil, nil // the number is another's now, so p's session is gone as well
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var family []process
	children := map[int][]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		member, ok := readProcess(pid)
		if !ok || member.Zombie {
			continue
		}
		if member.Session == p.PID {
			family = append(family, member)
		} else {
			children[member.Parent] = append(children[member.Parent], member)
		}
	}
	for i := 0; i < len(family); i++ { // grows while it is walked
		family = append(family, children[family[i].PID]...)
	}
	return family, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// bootID differs for each start of the machine.
func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the machine's boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// readFile returns the trimmed content of a small file, and whether it is there.
func readFile(path string) (string, bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return strings.TrimSpace(string(data)), err == nil, err
}
