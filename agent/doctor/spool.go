package doctor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gangline/gangline/provider/spool"
)

const spoolCure = "mount the spool's filesystem on this node, at the same path as where jobs are submitted, for the user that the job runs as"

// directory judges whether a directory is there for this user alone.
func directory(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	case ok && int(owner.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to the user %d and this is the user %d: users have other numbers here", dir, owner.Uid, os.Getuid())
	case info.Mode().Perm() != 0o700:
		return fmt.Errorf("%s has the permissions %o and must have 700", dir, info.Mode().Perm())
	}
	return nil
}

// tryFiles does in a directory what the agents do there: files that are replaced as a
// whole, hard links, locks.
func tryFiles(dir string) error {
	path := filepath.Join(dir, ".doctor-"+rand.Text()) // other nodes' doctors do it at the same time
	other := path + ".link"
	defer os.Remove(path)  //nolint:errcheck // as far as it was made
	defer os.Remove(other) //nolint:errcheck // likewise
	const text = "gangline"
	if err := spool.Write(path, text); err != nil {
		return fmt.Errorf("replacing a file: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm() != 0o600 {
		return fmt.Errorf("a file made with the permissions 600 has %o: the filesystem changes them", info.Mode().Perm())
	}
	if err := os.Link(path, other); err != nil {
		return fmt.Errorf("hard links do not work: %w", err)
	}
	var read string
	if found, err := spool.Read(other, &read); err != nil || !found || read != text {
		return fmt.Errorf("a hard link does not show its file (found %t): %w", found, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("locks do not work (flock): %w", err)
	}
	return nil
}

// spoolDir judges a directory of the spool as this node has it.
func spoolDir(dir string) Finding {
	err := directory(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Bad(CheckSpool, Fail, spoolCure, "%s is not there on this node", dir)
	}
	if err == nil {
		err = tryFiles(dir)
	}
	if err != nil {
		return Bad(CheckSpool, Fail, "use a filesystem for the spool that keeps users, permission bits, hard links and locks (on NFS without squashing this user; on Lustre with -o flock)",
			"%v", err)
	}
	return Good(CheckSpool, OK, "%s: permission bits, hard links and locks are as they should be", dir)
}

// lockFile is what the first task locks, and the others must find locked.
func lockFile(d spool.Dir) string { return filepath.Join(string(d), "doctor.lock") }

// holdLock takes the lock, and keeps it until the file is closed.
func holdLock(d spool.Dir) (*os.File, error) {
	f, err := os.OpenFile(lockFile(d), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockHeld tells whether somebody else holds the lock, nil where that cannot be tried.
func lockHeld(d spool.Dir) *bool {
	f, err := os.OpenFile(lockFile(d), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // nothing was written
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	held := errors.Is(err, syscall.EWOULDBLOCK)
	if err != nil && !held {
		return nil
	}
	return &held
}
