package container

import (
	"strings"

	"github.com/gangline/gangline/agent/image"
)

// apptainer is Apptainer, singularity what it was called before and SingularityCE still
// is. They take the same options.
func apptainer() Runtime   { return sif("apptainer") }
func singularity() Runtime { return sif("singularity") }

// gpuOptions are those by which the vendors' libraries are brought into the image.
var gpuOptions = map[Vendor]string{NVIDIA: "--nv", AMD: "--rocm"}

func sif(name string) Runtime {
	return Runtime{
		Name: name, Program: name, Form: image.FormSIF, Accepts: []image.Form{image.FormTree, image.FormSquashfs},
		Apart: true,
		Command: func(p Process) []string {
			argv := append([]string{p.program(name), "--quiet", "exec"}, p.Options...)
			// The pod's environment, home, /tmp and working directory are not the host's.
			argv = append(argv, "--cleanenv", "--no-home", "--no-eval", "--no-mount", "cwd,tmp,bind-paths", "--pwd", "/")
			if !p.ReadOnly {
				argv = append(argv, "--writable-tmpfs")
			}
			if p.User != nil && *p.User == 0 {
				argv = append(argv, "--fakeroot")
			}
			if option, ok := gpuOptions[p.GPUs]; ok {
				argv = append(argv, option)
			}
			for _, m := range p.Mounts {
				argv = append(argv, "--mount", "type=bind,"+csv("source", m.Source)+","+csv("destination", m.Target)+readOnlyWord(m, ",ro"))
			}
			return append(argv, p.Image, p.Init)
		},
		Test: func(program string) []string { return []string{program, "--version"} },
	}
}

// csv is a field of a --mount, whose words are those of a line of CSV (RFC 4180).
func csv(key, value string) string {
	field := key + "=" + value
	if !strings.ContainsAny(field, `,"`) {
		return field
	}
	return `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
}

func readOnlyWord(m Mount, word string) string {
	if m.ReadOnly {
		return word
	}
	return ""
}
