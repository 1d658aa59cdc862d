package translate

import (
	"path"
	"slices"
	"strings"

	"github.com/gangline/gangline/provider/spool"
)

// The workers of Kubeflow's MPI runtimes and of MPIJobs run sshd, from an image
// that has its configuration, host keys and user. None of that is on an HPC node,
// so the agent serves in its place.

const (
	sshProgram         = "sshd"
	authorizedKeysFile = "authorized_keys"
)

// shells are the programs whose -c gives a line to look for sshd in.
var shells = []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}

// sshd recognises a command that is sshd, nil for any other.
func (r *resolver) sshd(argv []string, mounts []spool.Mount) *spool.SSHD {
	program := sshdIn(argv)
	if program == "" {
		return nil
	}
	return &spool.SSHD{Program: program, AuthorizedKeys: r.mountedFiles(mounts, authorizedKeysFile)}
}

// sshdIn finds sshd in a command, however it is called: as its first word, or in
// the line that it gives to a shell.
func sshdIn(argv []string) string {
	switch {
	case len(argv) == 0:
		return ""
	case path.Base(argv[0]) == sshProgram:
		return argv[0]
	case !slices.Contains(shells, path.Base(argv[0])):
		return ""
	}
	// The line is the first operand behind a group of options with a "c".
	for i, word := range argv[1:] {
		if !strings.HasPrefix(word, "-") {
			return ""
		}
		if strings.HasSuffix(word, "c") && i+2 < len(argv) {
			return sshdInLine(argv[i+2])
		}
	}
	return ""
}

// sshdInLine finds the program's path among a line's words. It need not be a whole
// shell's reading: what is no program's path, as in "mkdir -p /run/sshd", is left
// alone, and a word too many costs nothing.
func sshdInLine(line string) string {
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()\"'`", r) }) {
		dir, base := path.Split(word)
		if base != sshProgram {
			continue
		}
		if dir == "" || path.IsAbs(dir) && strings.HasSuffix(dir, "bin/") {
			return word
		}
	}
	return ""
}

// mountedFiles lists the files of a name at the top of what is mounted, or mounted
// themselves, from ConfigMaps, Secrets and their like.
func (r *resolver) mountedFiles(mounts []spool.Mount, name string) []string {
	var found []string
	for _, m := range mounts {
		for _, p := range []string{path.Join(m.Path, name), m.Path} {
			if path.Base(p) == name && r.hasFileOf(m, p) && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// hasFileOf tells whether a mount puts a file at a path at or below its own.
func (r *resolver) hasFileOf(m spool.Mount, p string) bool {
	inVolume := path.Join(m.SubPath, strings.TrimPrefix(strings.TrimPrefix(p, m.Path), "/"))
	return slices.ContainsFunc(r.volumes, func(v spool.Volume) bool {
		return v.Name == m.Volume && slices.ContainsFunc(v.Files, func(f spool.File) bool { return f.Path == inVolume })
	})
}
