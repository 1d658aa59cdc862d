package container

import "github.com/gangline/gangline/agent/image"

// enroot is NVIDIA's enroot, which Slurm's plugin pyxis uses too. Libraries of GPUs are
// its hooks' business: they follow NVIDIA_VISIBLE_DEVICES.
func enroot() Runtime {
	const usual = "enroot"
	return Runtime{
		Name: "enroot", Program: usual, Form: image.FormSquashfs,
		Apart: true,
		Command: func(p Process) []string {
			argv := append([]string{p.program(usual), "start"}, p.Options...)
			if p.User != nil && *p.User == 0 {
				argv = append(argv, "--root")
			}
			if !p.ReadOnly {
				argv = append(argv, "--rw")
			}
			for _, m := range p.Mounts {
				// As in fstab(5): what is missing is made.
				argv = append(argv, "--mount", m.Source+":"+m.Target+":x-create=auto,rbind"+readOnlyWord(m, ",ro"))
			}
			return append(argv, p.Image, p.Init)
		},
		Test: func(program string) []string { return []string{program, "version"} },
	}
}
