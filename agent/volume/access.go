package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkAccess tells, before anything is mounted, that this process's user has no use of a
// path: that he may not enter a directory, or not read a file. A directory that he may
// enter and not list is of use: what is in it may be his.
func checkAccess(path, real string) error {
	info, err := os.Stat(real)
	if err != nil {
		return fmt.Errorf("hostPath %s: %w", path, err)
	}
	var need uint32 = unix.R_OK
	switch {
	case info.IsDir():
		need = unix.X_OK
	case !info.Mode().IsRegular():
		return nil // a device or a socket may be there to be written to
	}
	if err := unix.Access(real, need); errors.Is(err, unix.EACCES) {
		return noAccess(path, real)
	}
	return nil
}

// noAccess says that the user may not get at a path, or to it.
func noAccess(path, at string) error {
	closed := closedAt(at)
	return fmt.Errorf("the HPC user %s has no access to %s: %s is %s; ask its owner for the right to it, or mount another path", self(), path, closed, ownership(closed))
}

// cannotMake says that the user may not make a path.
func cannotMake(path string) error {
	parent := filepath.Dir(path)
	for parent != "/" {
		if _, err := os.Lstat(parent); err == nil {
			break
		}
		parent = filepath.Dir(parent)
	}
	return fmt.Errorf("the HPC user %s may not make %s: %s is %s; have it made, or ask for the right to write there", self(), path, parent, ownership(parent))
}

// closedAt is the directory on the way to a path, or the path itself, that the user may
// not enter or read.
func closedAt(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			if unix.Access(dir, unix.X_OK) != nil {
				return dir
			}
			return path
		}
		if dir == "/" {
			return path
		}
		path = dir
	}
}

// ownership says whether a path is the user's own, and what its mode is. Who another
// owner is cannot be told: in the agent's user namespace there is nobody else.
func ownership(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	whose := "another user's"
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Getuid() {
		whose = "the user's own"
	}
	return fmt.Sprintf("%s, with mode %s", whose, info.Mode())
}

// self is this process's user.
func self() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// makeDirs makes a directory and what is missing above it, all with the mode, if there is
// one. The group is the parent's where that has the setgid bit, as everywhere.
func makeDirs(path string, mode *int32) error {
	if mode == nil {
		return os.MkdirAll(path, 0o755)
	}
	var missing []string
	for dir := path; dir != "/"; dir = filepath.Dir(dir) {
		_, err := os.Lstat(dir)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, dir)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		err := os.Mkdir(missing[i], 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue // another pod of the gang was quicker
		}
		if err != nil {
			return err
		}
		if err := giveMode(missing[i], uint32(*mode)); err != nil { //nolint:gosec // permission bits
			return fmt.Errorf("giving %s its mode: %w", missing[i], err)
		}
	}
	return nil
}

// giveMode gives a new directory a mode, whatever the umask. It keeps the setgid bit that
// it has from its parent. Where others may write in that parent, one of them may have put a
// link in the directory's place: it is not followed.
func giveMode(dir string, mode uint32) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Fchmod(fd, mode|st.Mode&unix.S_ISGID)
}
