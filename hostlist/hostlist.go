// Package hostlist reads the short form of many hosts' names that Slurm and Flux share.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// The bounds of what a list may stand for: more hosts than any cluster has, the longest
// name that DNS allows, and more brackets in one name than anybody writes.
const (
	maxHosts    = 1 << 20
	maxName     = 253
	maxBrackets = 8
)

// Expand gives the names that a list stands for, in its order: "hpc[1-3,07],login" gives
// hpc1, hpc2, hpc3, hpc07 and login. Numbers keep the width of the first. Source:
// scontrol(1), show hostnames, and Flux's RFC 29.
func Expand(list string) ([]string, error) {
	var hosts []string
	for _, entry := range splitOutside(list) {
		if strings.Count(entry, "[") > maxBrackets {
			return nil, fmt.Errorf("reading the host list %q: a name has more than %d brackets", list, maxBrackets)
		}
		names, err := expand(entry)
		if err != nil {
			return nil, fmt.Errorf("reading the host list %q: %w", list, err)
		}
		if hosts = append(hosts, names...); len(hosts) > maxHosts {
			return nil, fmt.Errorf("reading the host list %q: it stands for more than %d hosts", list, maxHosts)
		}
	}
	return hosts, nil
}

// splitOutside splits at commas that are in no brackets.
func splitOutside(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth = max(0, depth-1) // one that closes nothing joins nothing
		}
		return r == ',' && depth == 0
	})
}

// expand replaces the first brackets, and then those that follow.
func expand(entry string) ([]string, error) {
	prefix, rest, bracketed := strings.Cut(entry, "[")
	if !bracketed {
		return []string{entry}, nil
	}
	inside, suffix, closed := strings.Cut(rest, "]")
	if !closed {
		return nil, fmt.Errorf("%q has a bracket that is not closed", entry)
	}
	suffixes, err := expand(suffix)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, numbers := range strings.Split(inside, ",") {
		first, last, ranged := strings.Cut(numbers, "-")
		if !ranged {
			last = first
		}
		from, errFrom := strconv.ParseUint(first, 10, 63)
		to, errTo := strconv.ParseUint(last, 10, 63)
		if errFrom != nil || errTo != nil || to < from || to-from >= maxHosts {
			return nil, fmt.Errorf("%q is no range of numbers", numbers)
		}
		if len(names)+int(to-from+1)*len(suffixes) > maxHosts { //nolint:gosec // less than maxHosts
			return nil, fmt.Errorf("%q stands for more than %d hosts", entry, maxHosts)
		}
		if len(prefix)+max(len(first), len(last))+longest(suffixes) > maxName {
			return nil, fmt.Errorf("%q stands for names of more than %d bytes", entry, maxName)
		}
		for n := from; n <= to; n++ {
			for _, s := range suffixes {
				names = append(names, fmt.Sprintf("%s%0*d%s", prefix, len(first), n, s))
			}
		}
	}
	return names, nil
}

func longest(names []string) int {
	n := 0
	for _, name := range names {
		n = max(n, len(name))
	}
	return n
}
