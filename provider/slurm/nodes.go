package slurm

import (
	"slices"
	"strconv"
	"strings"
)

// NodeUsable tells whether a node with these words for its state can be had, if not at
// once. They are sinfo's long form without suffix, or slurmrestd's list of the state
// and its flags, in upper or lower case. A word that is not known is one that passes.
// Source: sinfo(1), NODE STATE CODES, and slurmrestd's OpenAPI documents, NODE_STATES.
func NodeUsable(words ...string) bool {
	return !slices.ContainsFunc(words, func(word string) bool {
		switch strings.ToLower(word) {
		case "down", "drained", "draining", "drain", "fail", "failing", "error", "future", "inval", "maint", "unknown",
			"no_respond", "perfctrs",
			// The same as slurmrestd calls them.
			"invalid", "invalid_reg", "maintenance", "not_responding", "dynamic_future", "power_drain", "blocked", "external":
			return true
		default:
			return false
		}
	})
}

// GPUs counts the GPUs in a node's generic resources, such as
// "gpu:h100:8(S:0-1),nic:2": of all types, wherever they sit.
func GPUs(gres string) int {
	total, depth := 0, 0
	entries := strings.FieldsFunc(gres, func(r rune) bool {
		switch r { // commas in brackets separate sockets, not resources
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth == 0
	})
	for _, entry := range entries {
		entry, _, _ = strings.Cut(entry, "(")
		parts := strings.Split(entry, ":")
		if parts[0] != "gpu" {
			continue
		}
		count, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			count = 1 // Slurm's default, where a count is not given
		}
		total += count
	}
	return total
}

// Features are the features in Slurm's list of them: separated by commas, "(null)" for
// none.
func Features(list string) []string {
	if list == "(null)" || list == "" {
		return nil
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
