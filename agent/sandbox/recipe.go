package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gangline/gangline/provider/spool"
)

// Recipe is a process to start.
type Recipe struct {
	// Root is the private root, nil for none.
	Root *Root
	// Place is a private root for the process to enter, in Root's stead.
	Place *Place `json:"-"`
	// Runtime is the container runtime that the process starts by, nil for none.
	Runtime *Runtime
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
	// Limits are soft limits of the process.
	Limits []spool.Limit
	// LoginShell in place of Argv is the shell that there is, as at a login.
	LoginShell bool
	// KeepExtra, TakeTerminal and Enter are Start's to set, Contained the stage's own.
	KeepExtra, TakeTerminal, Enter, Contained bool
}

// Runtime is a container runtime: a program that starts another in an image.
type Runtime struct {
	// Argv is its command, which ends with what it starts in the image: this same
	// program, which must be there, under the name InitName. The runtime must let it have
	// the open files from 3 on (see HandedOn) under their own numbers. The program's
	// first three files are among them: the runtime itself has none of them.
	Argv []string
	Env  []string
	// Deaf keeps signals for the group from ending the runtime: it waits for the
	// program, which gets them itself.
	Deaf bool
	// OwnSession tells that the runtime makes the process the leader of a session.
	OwnSession bool
}

// Root is a private root.
type Root struct {
	Hostname string
	Mounts   []Mount
	// Scratch is an empty directory to build on.
	Scratch string
	// Image is an image's root filesystem that the mounts are made in, nil for the
	// host's own.
	Image *Image
}

// Image is the root filesystem of an image. It is put together with a root's mounts, and
// with the host's own /dev, /proc and /sys, in a directory of the host's tree: a container
// runtime makes that directory the root.
type Image struct {
	// Tree is its directory. Nothing is written there.
	Tree string
	// View is the empty directory in which it is put together.
	View string
	// Twin is another such directory that shows the same, for runtimes that put things of
	// the host over the image first and need to find the image's own behind them; empty
	// for none.
	Twin string
	// Upper is a directory for what is written to the image while it is used. It is made,
	// and must not be there before. It has to be on a local filesystem. Empty: the image
	// can only be read.
	Upper string
	// Writable are directories that can be written to even where the kernel does not lay
	// Upper over the tree. They are made.
	Writable []string
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
	// NoLinks tells that Source leads through no link. It must still be so: what was
	// allowed when it was looked at is not what a new link leads to.
	NoLinks bool
}

// Check tells what is wrong with a recipe.
func (r Recipe) Check() error {
	if r.Runtime != nil && len(r.Runtime.Argv) == 0 {
		return errors.New("the command of the container runtime is missing")
	}
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
