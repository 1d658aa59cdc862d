package usage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is one as the kernel shows it. Its number and start name it.
type process struct {
	id
	parent int
	// own is its processor time, children that of its descendants which have ended
	// and been waited for.
	own, children time.Duration
}

type id struct {
	pid   int
	start uint64
}

// memory is a process's, in bytes.
type memory struct{ resident, anonymous uint64 }

// processes is what a meter asks of the kernel.
type processes interface {
	// all lists all processes.
	all() ([]process, error)
	// stat reads one.
	stat(pid int) (process, bool)
	// mark is the value of the variable that marks containers' processes.
	mark(pid int) string
	// memory is quick to ask, proportional slow.
	memory(pid int) memory
	proportional(pid int) (share, resident uint64)
}

// procfs is /proc. Variable is the name of the mark's.
type procfs struct{ variable string }

var _ processes = procfs{}

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

func (f procfs) all() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer dir.Close() //nolint:errcheck // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var list []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := f.stat(pid); ok {
			list = append(list, p)
		}
	}
	return list, nil
}

func (procfs) stat(pid int) (process, bool) {
	line, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return process{}, false // gone
	}
	return parseStat(pid, string(line))
}

// tick is the unit of times in /proc: USER_HZ is 100 on all machines of today.
const tick = 10 * time.Millisecond

// parseStat reads /proc/<pid>/stat as proc(5) describes it.
func parseStat(pid int, line string) (process, bool) {
	// The command's name, in brackets, may hold anything.
	f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:]) // from the third field on
	const parent, utime, stime, cutime, cstime, start = 1, 11, 12, 13, 14, 19
	if len(f) <= start {
		return process{}, false
	}
	number := func(field int) uint64 {
		n, err := strconv.ParseUint(f[field], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	ticks := func(a, b int) time.Duration { return time.Duration(number(a)+number(b)) * tick } //nolint:gosec // centuries
	return process{
		id:     id{pid: pid, start: number(start)},
		parent: int(number(parent)), //nolint:gosec // a process's number
		own:    ticks(utime, stime), children: ticks(cutime, cstime),
	}, true
}

func (f procfs) mark(pid int) string {
	env, err := os.ReadFile(procFile(pid, "environ"))
	if err != nil {
		return ""
	}
	return markIn(env, f.variable)
}

func markIn(env []byte, variable string) string {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(variable+"=")); ok {
			return string(value)
		}
	}
	return ""
}

func (procfs) memory(pid int) memory {
	line, err := os.ReadFile(procFile(pid, "statm"))
	if err != nil {
		return memory{}
	}
	return parseStatm(string(line), uint64(os.Getpagesize())) //nolint:gosec // positive
}

func parseStatm(line string, page uint64) memory {
	f := strings.Fields(line)
	if len(f) < 3 {
		return memory{}
	}
	resident, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return memory{}
	}
	files, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil || files > resident {
		files = 0
	}
	return memory{resident: resident * page, anonymous: (resident - files) * page}
}

func (procfs) proportional(pid int) (share, resident uint64) {
	text, err := os.ReadFile(procFile(pid, "smaps_rollup"))
	if err != nil {
		return 0, 0 // an old kernel, or gone
	}
	return parseRollup(string(text))
}

func parseRollup(text string) (share, resident uint64) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseUint(f[1], 10, 64)
		switch f[0] {
		case "Pss:":
			share = n << 10
		case "Rss:":
			resident = n << 10
		}
	}
	return share, resident
}
