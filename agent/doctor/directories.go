package doctor

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent"
)

// CheckDirectories is the name of the check.
const CheckDirectories = "directories"

// scratch judges the directory that holds pods' scratch volumes, by the site's rule if it
// has one.
func scratch(c agent.Config, rule string) Finding {
	if rule == "" {
		return scratchDir(c.Scratch)
	}
	c = c.WithScratch(rule)
	const cure = "have the site make the directory before the first field of volumes.scratch on all HPC nodes, for all users to write to (mode 1777), or have its prolog make the job's"
	err := c.CheckScratch()
	if err == nil {
		defer c.RemoveScratch()
		err = os.MkdirAll(c.Scratch, 0o700)
	}
	if err != nil {
		return Bad(CheckScratch, Fail, cure, "%v", err)
	}
	return scratchDir(c.Scratch)
}

// directories judges the directories of the HPC nodes that the node's configuration names
// for volumes.
func directories(dirs []string) Finding {
	var absent, closed []string
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			err = unix.Access(dir, unix.X_OK)
		case err == nil:
			err = unix.ENOTDIR
		}
		switch {
		case errors.Is(err, fs.ErrPermission):
			closed = append(closed, dir)
		case err != nil:
			absent = append(absent, dir)
		}
	}
	const cure = "mount them, or correct hostPaths, readOnlyHostPaths and volumes.claims in the node's configuration: pods that mount them wait"
	switch {
	case len(dirs) == 0:
		return Good(CheckDirectories, Info, "the configuration names none for volumes")
	case len(absent) > 0:
		return Bad(CheckDirectories, Warn, cure, "for volumes there is no directory %s", strings.Join(absent, ", "))
	case len(closed) > 0:
		return Good(CheckDirectories, Info, "this user may not enter %s", strings.Join(closed, ", "))
	}
	return Good(CheckDirectories, OK, "those for volumes are there: %s", strings.Join(dirs, ", "))
}
