package sandbox

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// mountsBelow lists the mount points below a path in this mount namespace.
func mountsBelow(path string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("looking for mounts below %s: %w", path, err)
	}
	var points []string
	for _, point := range mountPoints(string(table)) {
		if point != path && within(point, path) {
			points = append(points, point)
		}
	}
	return points, nil
}

// mountPoints are those of a table in the form of /proc/self/mountinfo (proc(5)):
// the fifth field of each line.
func mountPoints(table string) []string {
	var points []string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, unescape(fields[4]))
		}
	}
	return points
}

// unescape undoes the kernel's \040 for a space and its like.
func unescape(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if len(after) >= 3 {
			if c, err := strconv.ParseUint(after[:3], 8, 8); err == nil {
				b.WriteByte(byte(c))
				s = after[3:]
				continue
			}
		}
		b.WriteByte('\\')
		s = after
	}
}
