package container

import (
	"strconv"

	"github.com/gangline/gangline/agent/image"
)

// bubblewrap is bwrap(1), by a user namespace of its own.
func bubblewrap() Runtime {
	const usual = "bwrap"
	return Runtime{
		Name: "bubblewrap", Program: usual, Form: image.FormTree,
		Deaf: true, Apart: true,
		Command: func(p Process) []string {
			argv := append([]string{p.program(usual)}, p.Options...)
			bind := "--dev-bind" // its devices are the node's
			// What is read-only is so already, each mount for itself: --ro-bind would take
			// the volumes with it.
			argv = append(argv, bind, p.Image, "/", "--die-with-parent")
			if p.User != nil {
				argv = append(argv, "--uid", number(*p.User))
			}
			if p.Group != nil {
				argv = append(argv, "--gid", number(*p.Group))
			}
			return append(argv, "--", p.Init)
		},
		Test: func(program string) []string {
			return []string{program, "--ro-bind", "/", "/", "--", "/bin/true"}
		},
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
