package mpirun

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/mpi/remoteshell"
)

// PMIVariable names the protocol that ranks speak, before the pod's annotation.
const PMIVariable = "GANGLINE_MPI_PMI"

// versionTimeout bounds the question to the launcher that stands next on PATH.
const versionTimeout = 10 * time.Second

// chooseProtocol chooses the protocol for a command line's programs: the one that
// is asked for; that of the MPI whose launcher stands next on PATH; that of the
// library that the programs are linked with.
func (c call) chooseProtocol(ctx context.Context, programs []launcher.RankProgram) (string, error) {
	pmi, from := c.getenv(PMIVariable), PMIVariable
	if pmi == "" {
		pmi, from = c.settings.PMI, "the annotation gangline.dev/mpi-pmi"
	}
	if pmi != "" {
		if err := launcher.CheckPMI(pmi); err != nil {
			return "", fmt.Errorf("%s: %w", from, err)
		}
	} else {
		pmi, from = c.spokenBy(ctx, c.next)
	}
	pmi, err := c.agree(pmi, from, programs)
	if mismatch, ok := errors.AsType[*mismatchError](err); ok {
		return "", fmt.Errorf("%w, or set %s=%s or the annotation gangline.dev/mpi-pmi: %s", err, PMIVariable, mismatch.speaks, mismatch.speaks)
	}
	if pmi == "" {
		return "", fmt.Errorf("it is not known which MPI the program is linked with: no other %s that says so is on PATH; set %s or the annotation gangline.dev/mpi-pmi to pmix (Open MPI) or pmi2 (MPICH, Intel MPI)", c.name, PMIVariable)
	}
	return pmi, nil
}

// agree makes sure that no program is linked with an MPI that does not speak the
// protocol which its ranks would be started for: it would take each rank for a world
// of its own, without an error. Where no protocol is known it is that of the
// programs.
func (c call) agree(pmi, from string, programs []launcher.RankProgram) (string, error) {
	for _, p := range programs {
		name, speaks, ok := launcher.ProgramFlavour(libraries(c.file(p)))
		switch {
		case !ok:
		case pmi == "":
			pmi, from = speaks, p.Argv[0]+" is linked with "+name
		case launcher.SpeaksPMIx(pmi) != launcher.SpeaksPMIx(speaks):
			return "", &mismatchError{p.Argv[0], name, speaks, pmi, from}
		}
	}
	return pmi, nil
}

// mismatchError says that a program and the way to start it do not go together.
type mismatchError struct{ program, mpi, speaks, pmi, from string }

func (e *mismatchError) Error() string {
	return fmt.Sprintf("%s is linked with %s, which speaks %s, and the ranks would be started for %s (%s): they would not find each other; call the launcher of %s (%s)",
		e.program, e.mpi, e.speaks, e.pmi, e.from, e.mpi, strings.Join(launcher.LaunchersFor(e.speaks), ", "))
}

// spokenBy is the protocol that a launcher's programs speak, and how that is known;
// "" if it is not.
func (c call) spokenBy(ctx context.Context, file string) (pmi, from string) {
	if file == "" {
		return "", ""
	}
	if real, err := filepath.EvalSymlinks(file); err == nil && slices.Contains(launcher.LaunchersFor(launcher.PMIx), filepath.Base(real)) {
		return launcher.PMIx, file + " is that of Open MPI" // which takes its time to say so
	}
	name, pmi, ok := launcher.LauncherFlavour(version(ctx, file, c.name, c.env))
	if !ok {
		return "", ""
	}
	return pmi, fmt.Sprintf("%s is that of %s", file, name)
}

// settle chooses the launcher behind a name that all MPIs share. The pod's owner may
// have said which one is meant, by the form of the default hostfile: then it is
// that one's, if there is one.
func (c *call) settle(ctx context.Context) {
	if c.name != "mpirun" && c.name != "mpiexec" {
		return
	}
	meant := c.meant()
	if meant == "" {
		return
	}
	if pmi, _ := c.spokenBy(ctx, c.next); pmi == meant {
		return
	}
	for _, name := range launcher.LaunchersFor(meant) {
		if file := remoteshell.Next(self, name, c.getenv("PATH")); file != "" {
			c.next = file
			return
		}
	}
}

// meant is the protocol of the MPI that all default hostfiles are written for, ""
// for none or several.
func (c call) meant() string {
	meant := ""
	for _, variable := range defaultHostfiles() {
		data, err := os.ReadFile(c.getenv(variable))
		if err != nil {
			continue
		}
		form := launcher.FormOf(string(data))
		if meant != "" && form != meant {
			return ""
		}
		meant = form
	}
	return meant
}

// guard makes sure, where the launcher next on PATH starts the ranks, that they are
// of its own MPI: by what their programs are linked with, and by snares for what
// cannot be told beforehand.
func (c *call) guard(ctx context.Context, programs []launcher.RankProgram) error {
	pmi, from := c.spokenBy(ctx, c.next)
	if pmi == "" {
		return nil // nobody can tell
	}
	if _, err := c.agree(pmi, from, programs); err != nil {
		return err
	}
	var names []string
	for _, entry := range launcher.Snares(pmi) {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	c.env = launcher.Override(c.env, launcher.Snares(pmi), []string{remoteshell.CarryVariable + "=" + strings.Join(names, ",")})
	return nil
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
