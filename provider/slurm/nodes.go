package slurm

import (
	"slices"
	"strings"

	"github.com/gangline/gangline/translate"
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
func GPUs(gres string) int { return translate.ParseGres(gres).Count("gpu") }

// Features are the features in Slurm's list of them: separated by commas, "(null)" for
// none.
func Features(list string) []string {
	if list == "(null)" || list == "" {
		return nil
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
