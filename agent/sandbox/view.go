package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hostDirs are what every container has of the host.
var hostDirs = [...]string{"/dev", "/proc", "/sys"}

// maxLinks bounds the symbolic links that one path may lead through, as the kernel does.
const maxLinks = 40

// openView shows an image's tree in its view, with room for the mounts.
//
// Where the kernel lays what is written over the tree (overlayfs, for ordinary users
// since Linux 5.11), the mount points are made in the upper layer beforehand: there
// nothing has to be copied up from a tree that may be another user's. Otherwise the tree
// is shown read-only, and what cannot be mounted on is shadowed as on the host.
func (b *builder) openView(i Image, mounts []Mount) error {
	layered := false
	if i.Upper != "" {
		points := slices.Clone(mounts)
		for _, dir := range slices.Concat(hostDirs[:], i.Writable) {
			points = append(points, Mount{Source: "/", Target: dir})
		}
		err := layer(i, points)
		if layered = err == nil; !layered && !errors.Is(err, errNoLayers) {
			return err
		}
	}
	if !layered {
		if err := bind(i.Tree, i.View); err != nil {
			return err
		}
		if err := remountReadOnly(i.View); err != nil {
			return err
		}
	}
	b.at = i.View
	b.volumes = append(b.volumes, i.View)
	if i.Upper == "" {
		b.readOnly = append(b.readOnly, i.View) // a shadow over its root, perhaps
	}
	var own []Mount
	for _, dir := range hostDirs {
		own = append(own, Mount{Source: dir, Target: dir})
	}
	if i.Upper != "" && !layered {
		for _, dir := range i.Writable {
			kept := filepath.Join(i.Upper, "root", dir)
			if err := makeWritable(kept); err != nil {
				return err
			}
			own = append(own, Mount{Source: kept, Target: dir})
		}
	}
	for _, m := range own {
		if err := b.mountPath(m); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
	}
	return nil
}

func (b *builder) mountPath(m Mount) error {
	source, err := os.OpenFile(m.Source, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only a handle
	return b.mount(source, m)
}

// errNoLayers says that the kernel, or the filesystem of the upper layer, has no overlays
// for this user.
var errNoLayers = errors.New("no overlay")

// layer mounts the tree with the upper layer over it.
func layer(i Image, mounts []Mount) error {
	root, work := filepath.Join(i.Upper, "root"), filepath.Join(i.Upper, "work")
	// What a container has once written must not be built on: its links would lead the
	// following through the host.
	for _, dir := range []string{i.Upper, root, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("making the image's upper layer: %w", err)
		}
	}
	for _, m := range mounts {
		if err := prepare(i.Tree, root, m); err != nil {
			return fmt.Errorf("making room for %s in the image: %w", m.Target, err)
		}
	}
	for _, dir := range i.Writable {
		resolved, _, err := ResolveIn(i.Tree, dir)
		if err == nil {
			err = makeWritable(filepath.Join(root, strings.TrimPrefix(resolved, i.Tree)))
		}
		if err != nil {
			return fmt.Errorf("making %s writable in the image: %w", dir, err)
		}
	}
	// By handles: a path may hold what the options of a mount cannot.
	var handles [3]string
	for k, dir := range []string{i.Tree, root, work} {
		f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return fmt.Errorf("opening the image: %w", err)
		}
		defer f.Close() //nolint:errcheck // only a handle
		handles[k] = handle(f)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", handles[0], handles[1], handles[2])
	if err := unix.Mount("gangline", i.View, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("%w: %w", errNoLayers, err)
	}
	return nil
}

// prepare makes a mount point in the upper layer where the tree has none.
func prepare(tree, upper string, m Mount) error {
	resolved, missing, err := ResolveIn(tree, m.Target)
	if err != nil || missing == "" {
		return err
	}
	info, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	point := strings.TrimPrefix(resolved, tree)
	if err := copyDirs(tree, upper, filepath.Dir(point)); err != nil {
		return err
	}
	return makeMountPoint(filepath.Join(upper, point), info.IsDir())
}

// copyDirs makes the directories of a path in the upper layer as they are in the tree.
func copyDirs(tree, upper, path string) error {
	if path == "/" || path == "." {
		return nil
	}
	if err := copyDirs(tree, upper, filepath.Dir(path)); err != nil {
		return err
	}
	mode := fs.FileMode(0o755)
	if info, err := os.Lstat(filepath.Join(tree, path)); err == nil {
		mode = info.Mode() & (fs.ModePerm | fs.ModeSticky)
	}
	made := filepath.Join(upper, path)
	if err := os.Mkdir(made, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(made, mode)
}

func makeWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, fs.ModePerm|fs.ModeSticky)
}

// ResolveIn follows a path as a process whose root is the directory would: its links
// never lead out. missing is the first part that does not exist, empty if all does.
func ResolveIn(root, path string) (resolved, missing string, err error) {
	resolved = root
	rest := strings.Split(strings.Trim(filepath.Clean("/"+path), "/"), "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if resolved != root {
				resolved = filepath.Dir(resolved)
			}
			continue
		}
		next := filepath.Join(resolved, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			if missing == "" {
				missing = next
			}
		case err != nil:
			return "", "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", "", fmt.Errorf("%s leads through too many links", path)
			}
			link, err := os.Readlink(next)
			if err != nil {
				return "", "", err
			}
			if filepath.IsAbs(link) {
				resolved = root
			}
			rest = append(strings.Split(link, "/"), rest...)
			continue
		}
		resolved = next
	}
	return resolved, missing, nil
}
