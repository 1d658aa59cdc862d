package mpirun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/gangline/gangline/mpi/remoteshell"
)

// Names are the launchers that this program stands in front of.
func Names() []string {
	return []string{
		"mpirun", "mpiexec", "mpiexec.hydra",
		"mpirun.mpich", "mpiexec.mpich", "mpirun.openmpi", "mpiexec.openmpi",
	}
}

// always are those that there are in the launch mode srun even where the node has
// none of that name.
func always() []string { return []string{"mpirun", "mpiexec"} }

// Link makes the links by which a pod finds this program as a launcher, for the
// names that stand on one of the search paths: a program that looks whether there
// is an mpirun must not be misled.
func Link(dir, self, mode string, searchPaths []string) error {
	for _, name := range Names() {
		there := mode == ModeSrun && slices.Contains(always(), name)
		for _, path := range searchPaths {
			there = there || remoteshell.Next(self, name, path) != ""
		}
		if !there {
			continue
		}
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making the launcher %s: %w", name, err)
		}
	}
	return nil
}

// Offer makes such links for names that are known to be there, and in the launch mode srun
// for those that always are.
func Offer(dir, self, mode string, there func(name string) bool) error {
	for _, name := range Names() {
		if !there(name) && (mode != ModeSrun || !slices.Contains(always(), name)) {
			continue
		}
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making the launcher %s: %w", name, err)
		}
	}
	return nil
}

// ownNames are Open MPI's launchers. They take a name with a slash as an order to
// set paths on all hosts; all others find their helpers beside the program that
// their name leads to.
func ownNames() []string { return []string{"orterun", "mpirun.openmpi", "prterun", "prun"} }

// nameFor is the name (argv[0]) under which a launcher is called.
func nameFor(file, called string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil && slices.Contains(ownNames(), filepath.Base(real)) {
		return called
	}
	return file
}

// become replaces this process by another program. It returns only if it cannot.
func become(file, called string, args, env []string) error {
	err := syscall.Exec(file, append([]string{nameFor(file, called)}, args...), env)
	return fmt.Errorf("starting %s: %w", file, err)
}
