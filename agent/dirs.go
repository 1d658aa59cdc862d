package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gangline/gangline/agent/alias"
	"github.com/gangline/gangline/agent/sandbox"
)

// podDirs are the host's directories behind one pod, all of them below a
// directory that only the user can enter.
type podDirs struct {
	memory string // files, and volumes that are to be in memory
	disk   string // other scratch volumes
}

func (d podDirs) run() string     { return filepath.Join(d.memory, "run") }
func (d podDirs) hosts() string   { return filepath.Join(d.memory, "hosts") }
func (d podDirs) scratch() string { return filepath.Join(d.memory, "scratch") }
func (d podDirs) work() string    { return filepath.Join(d.disk, "work") }
func (d podDirs) home() string    { return filepath.Join(d.disk, "home") }

// layers is where a run of a container has what it writes to its image.
func (d podDirs) layers(run string) string { return filepath.Join(d.disk, "layers", run) }

func (d podDirs) termination(container string) string {
	return filepath.Join(d.memory, "termination", container)
}

// part is where a part of a volume is kept for a run of a container, which mounts it
// at a path.
func (d podDirs) part(run, at string) string {
	return filepath.Join(d.memory, "parts", run, url.PathEscape(at))
}

func (d podDirs) volume(name string, memory bool) string {
	if memory {
		return filepath.Join(d.memory, "volumes", name)
	}
	return filepath.Join(d.disk, "volumes", name)
}

// create makes the directories and the links by which a pod finds the programs that
// the agent is.
func (d podDirs) create(self string) error {
	for _, dir := range []string{filepath.Join(d.run(), "bin"), d.scratch(), filepath.Dir(d.termination("")), filepath.Dir(d.work())} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the pod's directories: %w", err)
		}
	}
	for _, name := range alias.OnPath() {
		if err := os.Symlink(self, filepath.Join(d.run(), "bin", name)); err != nil {
			return fmt.Errorf("making the pod's directories: %w", err)
		}
	}
	return writeSSHInclude(d)
}

// offerInit makes what a container runtime starts: the agent's own program, which is
// mounted in the place of an empty file, under the name by which it knows its task.
func (d podDirs) offerInit() error {
	if err := emptyFile(filepath.Join(d.run(), filepath.Base(agentFile))); err != nil {
		return fmt.Errorf("making the pod's directories: %w", err)
	}
	if err := os.Symlink(filepath.Base(agentFile), filepath.Join(d.run(), sandbox.InitName)); err != nil {
		return fmt.Errorf("making the pod's directories: %w", err)
	}
	return nil
}

func (d podDirs) remove() error {
	return errors.Join(removeAll(d.memory), removeAll(d.disk))
}

// openDir makes a directory of these permission bits (with the sticky bit as 01000),
// 0777 for one that all may write: its parent lets in nobody else.
func openDir(path string, mode int32) error {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	const sticky = 0o1000
	bits := fs.FileMode(mode) & fs.ModePerm //nolint:gosec // permission bits
	if mode&sticky != 0 {
		bits |= fs.ModeSticky
	}
	return os.Chmod(path, bits) // the umask must not count
}

// errForeign says that a directory's path is taken by another user.
var errForeign = errors.New("is not this user's own directory")

// makeOwnDir makes a directory that only the user can enter, or takes one that
// is so already: its parent may be writable by all, who could have put there
// what they like.
func makeOwnDir(path string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Mkdir(path, 0o700)
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("making the agent's directory: %w", err)
	case !isOwnDir(path):
		return fmt.Errorf("%s %w; remove it, or choose another by %s or TMPDIR", path, errForeign, envRuntimeDir)
	}
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a directory
		return fmt.Errorf("making the agent's directory: %w", err)
	}
	return nil
}

func isOwnDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return info.IsDir() && ok && int(owner.Uid) == os.Getuid()
}

// ownDir makes the agent's directory at a path or, where that is taken by
// somebody else, at a new one beside it: nobody may keep a gang from running by
// taking a name that all know. Such a directory is temporary.
func ownDir(path string, logger *slog.Logger) (dir string, temporary bool, err error) {
	if err = makeOwnDir(path); !errors.Is(err, errForeign) {
		return path, false, err
	}
	dir, tempErr := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+"-")
	if tempErr != nil {
		return "", false, errors.Join(err, tempErr)
	}
	logger.Warn("the agent's directory is taken, another one is used", "error", err, "dir", dir)
	return dir, true, nil
}

// removeAll removes a tree, even where a program took the right to write from
// its own directories.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory
		}
		return nil
	})
	return os.RemoveAll(path)
}
