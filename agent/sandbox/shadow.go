package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxEntries bounds the directory that can be shadowed: each entry is a mount.
const maxEntries = 5000

// shadow makes room for new entries in a directory that the user may not write:
// a tmpfs with all its entries bound in takes its place. At the end of the build
// it becomes read-only, as the original is for this user.
func (b *builder) shadow(dir string) error {
	entries, err := os.ReadDir(dir)
	if unix.Access(dir, unix.X_OK) != nil {
		entries, err = nil, nil // none of them can be reached
	}
	if err != nil {
		return fmt.Errorf("making a mount point in %s: %w", dir, err)
	}
	if len(entries) > maxEntries {
		return fmt.Errorf("making a mount point in %s: it has more than %d entries; have the mount point made on the HPC nodes", dir, maxEntries)
	}
	stage := filepath.Join(b.scratch, "stage")
	if err := os.Mkdir(stage, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a mount point in %s: %w", dir, err)
	}
	if err := unix.Mount("gangline", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m"); err != nil {
		return fmt.Errorf("making a mount point in %s: mounting a tmpfs: %w", dir, err)
	}
	// Unbindable, or a bound entry that contains the stage would contain itself.
	if err := unix.Mount("", stage, "", unix.MS_UNBINDABLE, ""); err != nil {
		return fmt.Errorf("making a mount point in %s: %w", dir, err)
	}
	device, err := deviceOf(stage)
	if err != nil {
		return fmt.Errorf("making a mount point in %s: %w", dir, err)
	}
	for _, e := range entries {
		if err := mirror(dir, stage, e); err != nil {
			return fmt.Errorf("making a mount point in %s: %w", dir, err)
		}
	}
	if dir == "/" {
		err = pivot(stage)
	} else {
		err = unix.Mount(stage, dir, "", unix.MS_MOVE, "")
	}
	if err != nil {
		return fmt.Errorf("making a mount point in %s: moving the tmpfs: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making a mount point in %s: %w", dir, err)
	}
	b.shadows = append(b.shadows, device)
	b.readOnly = append(b.readOnly, dir)
	return nil
}

// mirror makes an entry of a directory appear in the stage. What the user
// cannot reach, or is gone meanwhile, is left out.
func mirror(dir, stage string, e fs.DirEntry) error {
	from, to := filepath.Join(dir, e.Name()), filepath.Join(stage, e.Name())
	switch {
	case e.Type() == fs.ModeSymlink:
		link, err := os.Readlink(from)
		if err != nil {
			return nil
		}
		return os.Symlink(link, to)
	case e.Name() == "ptmx" && e.Type()&fs.ModeCharDevice != 0:
		return mirrorPtmx(dir, stage)
	case e.IsDir():
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	default:
		if err := makeMountPoint(to, false); err != nil {
			return err
		}
	}
	err := bind(from, to)
	for _, skip := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ESTALE, unix.EIO, unix.ENODEV, unix.ENXIO} {
		if errors.Is(err, skip) {
			return os.Remove(to)
		}
	}
	return err
}

// mirrorPtmx links the pseudoterminal master. It finds its filesystem as "pts"
// beside itself in the very mount it is opened through (devpts(5)), which a bind
// of the device alone lacks. So the whole original is bound to a hidden place.
func mirrorPtmx(dir, stage string) error {
	const hidden = ".host"
	to := filepath.Join(stage, hidden)
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	if err := bind(dir, to); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(hidden, "ptmx"), filepath.Join(stage, "ptmx"))
}

// pivot makes the stage the root and lets the old one go; see pivot_root(2),
// "pivot_root(".", ".")".
func pivot(stage string) error {
	if err := os.Chdir(stage); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detaching the old root: %w", err)
	}
	return os.Chdir("/")
}

// bind mounts with all mounts below, which a user namespace does not let us
// leave out.
func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s: %w", from, err)
	}
	return nil
}

// remountReadOnly keeps the flags that the mount has: a user namespace may not
// take away any that came from outside (mount_namespaces(7)).
func remountReadOnly(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY)
	for has, keep := range map[int64]uintptr{
		unix.ST_NOSUID:     unix.MS_NOSUID,
		unix.ST_NODEV:      unix.MS_NODEV,
		unix.ST_NOEXEC:     unix.MS_NOEXEC,
		unix.ST_NOATIME:    unix.MS_NOATIME,
		unix.ST_NODIRATIME: unix.MS_NODIRATIME,
		unix.ST_RELATIME:   unix.MS_RELATIME,
	} {
		if st.Flags&has != 0 {
			flags |= keep
		}
	}
	if err := unix.Mount("", path, "", flags, ""); err != nil {
		return fmt.Errorf("making %s read-only: %w", path, err)
	}
	return nil
}
