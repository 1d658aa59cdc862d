package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/sshd"
)

// A line of the SSH protocol's reaches the user's shell as one argument; an argument vector
// reaches no shell at all.
func FuzzComplete(f *testing.F) {
	f.Add("ls -l; reboot", "", "a\x00b")
	f.Add("", "sftp", "")
	f.Add("-c x", "", "")
	f.Add("$(x)", "other", "--\x00-c")
	f.Fuzz(func(t *testing.T, line, subsystem, words string) {
		var argv []string
		if words != "" {
			argv = strings.Split(words, "\x00")
		}
		var r sandbox.Recipe
		Complete(&r, sshd.Command{Line: line, Subsystem: subsystem, Argv: argv}, "")
		switch {
		case len(argv) > 0:
			assert.Equal(t, argv, r.Argv)
			assert.Empty(t, r.Path, "the program is the vector's first word")
		case subsystem == SFTP:
			assert.Equal(t, sandbox.Self, r.Path)
			assert.Len(t, r.Argv, 1)
		case line != "":
			assert.Equal(t, "/bin/sh", r.Path)
			assert.Equal(t, []string{"sh", "-c", line}, r.Argv)
		default:
			assert.LessOrEqual(t, len(r.Argv), 1, "a login shell")
		}
	})
}

func FuzzOverride(f *testing.F) {
	f.Add("A=1\x00B=2\x00A=3", "A=4\x00C=")
	f.Fuzz(func(t *testing.T, base, entries string) {
		before, with := strings.Split(base, "\x00"), strings.Split(entries, "\x00")
		for _, e := range with {
			if !strings.Contains(e, "=") {
				return // the service takes none of these
			}
		}
		env := override(before, with...)
		assert.LessOrEqual(t, len(env), len(before)+len(with))
		seen := map[string]int{}
		for _, e := range env {
			name, _, set := strings.Cut(e, "=")
			if set {
				seen[name]++
			}
		}
		for _, e := range with {
			if name, _, set := strings.Cut(e, "="); set {
				assert.Equal(t, 1, seen[name], "what the client sends is there once")
			}
		}
	})
}
