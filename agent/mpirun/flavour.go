package mpirun

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gangline/gangline/mpi/launcher"
)

// PMIVariable names the protocol that ranks speak, before the pod's annotation.
const PMIVariable = "GANGLINE_MPI_PMI"

// versionTimeout bounds the question to the launcher that stands next on PATH.
const versionTimeout = 10 * time.Second

// chooseProtocol chooses the protocol for a command line's programs: the one that
// is asked for; that of the MPI whose launcher stands next on PATH; that of the
// library that the programs are linked with. Programs that are linked with
// another MPI than that are refused: under a protocol that it does not speak,
// MPICH's library takes each rank for a world of its own, without an error.
func (c call) chooseProtocol(ctx context.Context, programs []launcher.RankProgram) (string, error) {
	pmi, from := c.getenv(PMIVariable), PMIVariable
	if pmi == "" {
		pmi, from = c.settings.PMI, "the annotation gangline.dev/mpi-pmi"
	}
	if pmi != "" {
		if err := launcher.CheckPMI(pmi); err != nil {
			return "", fmt.Errorf("%s: %w", from, err)
		}
	} else if c.next != "" {
		if name, speaks, ok := launcher.LauncherFlavour(version(ctx, c.next, c.name, c.env)); ok {
			pmi, from = speaks, fmt.Sprintf("%s is that of %s", c.next, name)
		}
	}
	for _, p := range programs {
		name, speaks, ok := launcher.ProgramFlavour(libraries(c.file(p)))
		switch {
		case !ok:
		case pmi == "":
			pmi, from = speaks, p.Argv[0]+" is linked with "+name
		case launcher.SpeaksPMIx(pmi) != launcher.SpeaksPMIx(speaks):
			return "", fmt.Errorf("%s is linked with %s, which speaks %s, and the ranks would be started for %s (%s): they would not find each other; call the launcher of %s, or set %s=%s or the annotation gangline.dev/mpi-pmi: %s",
				p.Argv[0], name, speaks, pmi, from, name, PMIVariable, speaks, speaks)
		}
	}
	if pmi == "" {
		return "", fmt.Errorf("it is not known which MPI the program is linked with: no other %s that says so is on PATH; set %s or the annotation gangline.dev/mpi-pmi to pmix (Open MPI) or pmi2 (MPICH, Intel MPI)", c.name, PMIVariable)
	}
	return pmi, nil
}

// version is what a launcher says of itself, "" if it says nothing.
func version(ctx context.Context, file, called string, env []string) string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version") //nolint:gosec // it is what the user called
	cmd.Args[0], cmd.Env, cmd.WaitDelay = nameFor(file, called), env, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return ""
	}
	return string(out)
}

// libraries are those that a program's file needs, none if it is no program of
// its own.
func libraries(file string) []string {
	if file == "" {
		return nil
	}
	f, err := elf.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil
	}
	return needed
}

// file finds the file of a program as it is here; in the ranks' pods it is looked
// up again.
func (c call) file(p launcher.RankProgram) string {
	name := p.Argv[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		return name
	}
	for _, dir := range filepath.SplitList(c.getenv("PATH")) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate
		}
	}
	return ""
}
