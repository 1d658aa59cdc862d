package oom

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Counter is the file that counts, empty where there is none.
type Counter string

// Find returns the counter of the calling process's control group. An error says
// that there is none: the node has no control groups for memory.
func Find() (Counter, error) { return find("/proc/self/cgroup", "/sys/fs/cgroup") }

func find(membership, mounted string) (Counter, error) {
	text, err := os.ReadFile(membership)
	if err != nil {
		return "", fmt.Errorf("finding the control group: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		// "4:memory:/path" in the first version, "0::/path" in the second.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for controller, file := range map[string]string{
			"memory": filepath.Join(mounted, "memory", parts[2], "memory.oom_control"),
			"":       filepath.Join(mounted, parts[2], "memory.events"),
		} {
			if !has(parts[1], controller) {
				continue
			}
			if _, err := os.Stat(file); err == nil {
				return Counter(file), nil
			}
		}
	}
	return "", fmt.Errorf("this node counts no processes that were killed for want of memory: no control group of %s has a file for that", membership)
}

// has tells whether a list of controllers, as in "cpu,memory", names one.
func has(list, controller string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if name == controller {
			return true
		}
	}
	return false
}

// Kills is how many processes have been killed so far; 0 where nobody counts.
func (c Counter) Kills() int64 {
	if c == "" {
		return 0
	}
	file, err := os.Open(string(c))
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if count, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			n, _ := strconv.ParseInt(count, 10, 64)
			return n
		}
	}
	return 0
}
