package session

import (
	"slices"
	"strings"
)

// override replaces entries of an environment: where a name is given twice,
// programs do not agree on which one counts.
func override(env []string, entries ...string) []string {
	env = slices.Clone(env)
	for _, e := range entries {
		name, _, _ := strings.Cut(e, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, e)
	}
	return env
}
