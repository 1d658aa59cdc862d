package flux

import (
	"fmt"
	"strconv"
	"strings"
)

// maxIDs bounds what a set may stand for: more than any instance has.
const maxIDs = 1 << 20

// ParseIDs reads a set of ranks, cores or GPUs, "0-3,7", into a list. RFC 22.
func ParseIDs(set string) ([]int, error) {
	var ids []int
	trimmed := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(set), "["), "]")
	if trimmed == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(trimmed, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 31)
		last, err2 := strconv.ParseUint(high, 10, 31)
		if err != nil || err2 != nil || last < first || int(last-first) >= maxIDs-len(ids) {
			return nil, fmt.Errorf("reading the set of ids %q: %q makes no sense", set, part)
		}
		for id := first; id <= last; id++ {
			ids = append(ids, int(id))
		}
	}
	return ids, nil
}

// ParseHosts reads a list of hosts, "n[0-1,07],login", in its order. RFC 29.
func ParseHosts(list string) ([]string, error) {
	var hosts []string
	for _, entry := range splitHosts(list) {
		names, err := expandHosts(entry)
		if err != nil {
			return nil, fmt.Errorf("reading the list of hosts %q: %w", list, err)
		}
		if hosts = append(hosts, names...); len(hosts) > maxIDs {
			return nil, fmt.Errorf("reading the list of hosts %q: it stands for more than %d", list, maxIDs)
		}
	}
	return hosts, nil
}

// splitHosts splits at commas that are in no brackets.
func splitHosts(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return r == ',' && depth == 0
	})
}

// expandHosts expands the only brackets that an entry may have.
func expandHosts(entry string) ([]string, error) {
	prefix, rest, bracketed := strings.Cut(strings.TrimSpace(entry), "[")
	if !bracketed {
		return []string{prefix}, nil
	}
	inside, suffix, closed := strings.Cut(rest, "]")
	if !closed {
		return nil, fmt.Errorf("%q has no closing bracket", entry)
	}
	var hosts []string
	for part := range strings.SplitSeq(inside, ",") {
		low, _, _ := strings.Cut(part, "-")
		numbers, err := ParseIDs(part)
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			hosts = append(hosts, fmt.Sprintf("%s%0*d%s", prefix, len(low), n, suffix))
		}
	}
	return hosts, nil
}
