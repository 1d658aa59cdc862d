package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Recipe is a process to start.
type Recipe struct {
	// Root is the private root, nil for none.
	Root *Root
	// Dir is the working directory. It is made where it does not exist, unless
	// DirMustExist; then DirElse takes its place, if there is one.
	Dir, DirElse string
	DirMustExist bool
	// Argv is the command. Without a slash Argv[0] is looked up on Env's PATH.
	// None: build the root and end.
	Argv []string
	// Path is the program's file where it is not Argv[0].
	Path string
	Env  []string
	// KeepExtra is Start's to set.
	KeepExtra bool
}

// Root is a private root.
type Root struct {
	Hostname string
	Mounts   []Mount
	// Scratch is an empty directory to build on.
	Scratch string
}

// Mount puts a directory or a file of the host at another path.
type Mount struct {
	Source   string
	Target   string // absolute
	ReadOnly bool
	// Recursive makes what the source has mounted below it read-only as well.
	Recursive bool
	// IfMissing mounts only where the host has nothing at Target.
	IfMissing bool
}

// Check tells what is wrong with a recipe.
func (r Recipe) Check() error {
	if r.Root == nil {
		return nil
	}
	if !filepath.IsAbs(r.Root.Scratch) {
		return errors.New("a private root needs an absolute scratch directory")
	}
	for _, m := range r.Root.Mounts {
		if !filepath.IsAbs(m.Target) || filepath.Clean(m.Target) == "/" {
			return fmt.Errorf("a volume cannot be mounted at %q: the path must be absolute and not /", m.Target)
		}
	}
	return nil
}

// StartError says that a process could not be started, in words for the pod's
// owner.
type StartError struct {
	Message string
	// Status is what a shell would return: NotFound, NotExecutable, or 1 where it
	// is not the program that is wrong.
	Status int
}

// The exit statuses of a shell that cannot start a program (POSIX, "Exit Status
// for Commands").
const (
	NotExecutable = 126
	NotFound      = 127
)

func (e *StartError) Error() string { return e.Message }
