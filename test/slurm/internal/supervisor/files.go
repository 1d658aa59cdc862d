package supervisor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// Lock takes the cluster's lock, or says that a supervisor has it. The lock goes with
// the process.
func Lock(p plan.Plan) (*os.File, error) {
	for {
		f, err := os.OpenFile(p.LockFile(), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open the lock: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isCurrent(f) {
			return f, nil
		}
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrRunning, p.Dir)
		}
		if err != nil {
			return nil, fmt.Errorf("take the lock: %w", err)
		}
	}
}

// isCurrent tells whether f is still the file at its path: its last holder may have
// removed it between our open and our lock.
func isCurrent(f *os.File) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Name())
	return err == nil && os.SameFile(ours, there)
}

// Remove removes a stopped cluster's files, and its folder if nothing else is in it.
func Remove(dir string) error {
	if _, err := plan.Load(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := Lock(plan.Plan{Dir: dir})
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := RemoveFiles(dir); err != nil {
		return err
	}
	if err := os.Remove(lock.Name()); err != nil {
		return fmt.Errorf("remove the lock: %w", err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the cluster's folder: %w", err)
	}
	return nil
}

// ErrRunning says that a supervisor has the cluster's directory.
var ErrRunning = errors.New("a dev Slurm runs already in this directory")

// RemoveFiles removes what a cluster created in its directory, but not the lock, and
// refuses when the directory is not a cluster's.
func RemoveFiles(dir string) error {
	if err := checkOurs(dir); err != nil {
		return err
	}
	entries := plan.Entries()
	for i := len(entries) - 1; i >= 0; i-- { // the plan last: with it the directory is known as ours
		if entries[i] == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entries[i])); err != nil {
			return fmt.Errorf("remove old files: %w", err)
		}
	}
	return nil
}

// checkOurs fails when dir has files of the names that a cluster uses, but is no cluster's.
func checkOurs(dir string) error {
	p, err := plan.Load(dir)
	if err == nil && p.Dir == dir {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range plan.Entries() {
		if name == lockName || name == plan.DraftFile {
			continue // all that a supervisor killed at its very start may have left
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s holds %q but is no dev Slurm's directory: nothing removed", dir, name)
		}
	}
	return nil
}

const lockName = "lock"

// makeFiles lays out the cluster's directory.
func makeFiles(p plan.Plan) error {
	slurm, err := idsOf("slurm")
	if err != nil {
		return err
	}
	munge, err := idsOf("munge")
	if err != nil {
		return err
	}
	root, owner := ids{0, 0}, ids{p.UID, p.GID}
	dirs := []ownedDir{
		{filepath.Dir(p.SlurmConf()), root},
		{p.MungeDir(), munge},
		{p.StateDir(), slurm},
		{p.SpoolDir(), root},
		{p.PIDDir(), slurm},
		{p.LogDir(), slurm},
		{filepath.Dir(p.GPUDevice(0)), root},
		{p.SharedDir(), owner},
		{filepath.Dir(p.NodeFile(plan.Head, "")), root},
	}
	if p.REST {
		nobody, err := idsOf(restUser)
		if err != nil {
			return err
		}
		dirs = append(dirs, ownedDir{filepath.Dir(p.JWTKey()), slurm}, ownedDir{filepath.Dir(p.RESTSocket()), nobody})
	}
	if p.Accounting {
		dirs = append(dirs, ownedDir{p.DatabaseDir(), slurm}, ownedDir{filepath.Dir(p.DatabaseSocket()), slurm})
	}
	for _, name := range append(p.NodeNames(), plan.Head) {
		dirs = append(dirs, ownedDir{p.NodeFile(name, procDir), root})
	}
	for _, d := range dirs {
		if err := os.MkdirAll(d.path, 0o755); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		if err := os.Chown(d.path, d.ids.uid, d.ids.gid); err != nil {
			return fmt.Errorf("give a folder to its owner: %w", err)
		}
	}
	if err := errors.Join(makeKey(mungeFile(p, "munge.key"), 128, munge), makeGPUs(p), p.WriteConfig()); err != nil {
		return err
	}
	if p.REST {
		if err := makeKey(p.JWTKey(), 32, slurm); err != nil {
			return err
		}
	}
	if p.Accounting {
		return writeOwned(p.EtcFile("slurmdbd.conf"), []byte(p.SlurmdbdConfText()), 0o600, slurm)
	}
	return nil
}

type ownedDir struct {
	path string
	ids  ids
}

// makeKey writes a random key that its owner alone can read.
func makeKey(path string, size int, owner ids) error {
	key := make([]byte, size)
	_, _ = rand.Read(key) // never fails
	return writeOwned(path, key, 0o400, owner)
}

func writeOwned(path string, data []byte, mode os.FileMode, owner ids) error {
	if err := os.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("write a daemon's file: %w", err)
	}
	if err := os.Chown(path, owner.uid, owner.gid); err != nil {
		return fmt.Errorf("give a daemon its file: %w", err)
	}
	return nil
}

// makeGPUs makes device files that behave like /dev/null.
func makeGPUs(p plan.Plan) error {
	for i := range p.GPUs {
		path := p.GPUDevice(i)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			return fmt.Errorf("make a GPU's device file: %w", err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return fmt.Errorf("open a GPU's device file to all: %w", err)
		}
	}
	return nil
}

type ids struct{ uid, gid int }

// idsOf finds a system user that Debian's packages create.
func idsOf(name string) (ids, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return ids{}, fmt.Errorf("find user %s: %w", name, err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return ids{}, fmt.Errorf("uid of %s: %w", name, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return ids{}, fmt.Errorf("gid of %s: %w", name, err)
	}
	return ids{uid, gid}, nil
}

func mungeFile(p plan.Plan, name string) string { return filepath.Join(p.MungeDir(), name) }
