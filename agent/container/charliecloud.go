package container

import (
	"path/filepath"

	"github.com/gangline/gangline/agent/image"
)

// charliecloud is ch-run(1).
func charliecloud() Runtime {
	const usual = "ch-run"
	return Runtime{
		Name: "charliecloud", Program: usual, Form: image.FormTree,
		Apart: true, Twin: true,
		Command: func(p Process) []string {
			argv := append([]string{p.program(usual)}, p.Options...)
			argv = append(argv, "--no-passwd")
			if !p.ReadOnly {
				argv = append(argv, "--write")
			}
			if p.User != nil {
				argv = append(argv, "--uid="+number(*p.User))
			}
			if p.Group != nil {
				argv = append(argv, "--gid="+number(*p.Group))
			}
			// It puts the host's own over these of the image, which are still in its twin.
			for _, path := range []string{"/dev", "/proc", "/sys", "/tmp", "/etc/hosts"} {
				argv = append(argv, "--bind="+filepath.Join(p.Twin, path)+":"+path)
			}
			return append(argv, p.Image, "--", p.Init)
		},
		Test: func(program string) []string { return []string{program, "--version"} },
	}
}
