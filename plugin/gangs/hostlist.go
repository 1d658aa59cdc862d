package gangs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var numbered = regexp.MustCompile(`^(.*?)(\d+)$`)

// maxDigits is that of numbers which are put into ranges; longer ones stay as they are.
const maxDigits = 9

// series are hosts that differ in their numbers only.
type series struct {
	prefix string
	width  int // of numbers with zeros before them, 0 for those without
}

// Hostlist is a list of hosts in the workload managers' short form: "hpc[1-3,7],login".
// Numbers keep their zeros: hpc01 and hpc1 are not in one range, hpc09 and hpc10 are.
func Hostlist(hosts []string) string {
	padded := map[series]bool{}
	for _, host := range hosts {
		if found := numbered.FindStringSubmatch(host); found != nil && len(found[2]) > 1 && found[2][0] == '0' {
			padded[series{found[1], len(found[2])}] = true
		}
	}
	var parts []string
	place := map[series]int{}
	numbers := map[series][]int{}
	for _, host := range hosts {
		found := numbered.FindStringSubmatch(host)
		if found == nil || len(found[2]) > maxDigits {
			parts = append(parts, host)
			continue
		}
		s := series{found[1], len(found[2])}
		if !padded[s] {
			s.width = 0
		}
		if _, known := place[s]; !known {
			place[s] = len(parts)
			parts = append(parts, "")
		}
		n, _ := strconv.Atoi(found[2])
		numbers[s] = append(numbers[s], n)
	}
	for s, at := range place {
		parts[at] = ranges(s.prefix, s.width, numbers[s])
	}
	return strings.Join(parts, ",")
}

func ranges(prefix string, width int, numbers []int) string {
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) == 1 {
		return fmt.Sprintf("%s%0*d", prefix, width, numbers[0])
	}
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := fmt.Sprintf("%0*d", width, numbers[i])
		if last > i {
			part += fmt.Sprintf("-%0*d", width, numbers[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return prefix + "[" + strings.Join(parts, ",") + "]"
}
