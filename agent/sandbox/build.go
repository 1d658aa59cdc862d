package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// build makes the calling process's mount namespace the private root.
func build(r Root) error {
	b := &builder{scratch: r.Scratch, world: os.Getuid() == 0}
	if err := b.build(r); err != nil {
		return fmt.Errorf("building the private root: %w", err)
	}
	return nil
}

type builder struct {
	// scratch is a directory in which stage is made.
	scratch string
	// at is the directory that the mounts are made in, empty for the host's root.
	at string
	// world: only what all users may write counts as writable, because this
	// user, root, may write everything and must not litter the host.
	world bool
	// volumes lists the mount points in place so far, shadows the device
	// numbers of the tmpfs that cover directories.
	volumes []string
	shadows []uint64
	// readOnly lists what is made so at the end: until then mount points may
	// have to be made in it.
	readOnly []string
	// below lists the mounts that sources of read-only volumes had themselves.
	below []submounts
}

// submounts are mount points below a volume's.
type submounts struct {
	of     string
	points []string
}

func (b *builder) build(r Root) error {
	// Mounts that the host makes later still arrive, ours never get out.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cutting the mounts off the host's: %w", err)
	}
	mounts := slices.Clone(r.Mounts)
	slices.SortStableFunc(mounts, func(x, y Mount) int {
		return cmp.Compare(depth(x.Target), depth(y.Target))
	})
	if r.Image == nil {
		if err := b.makeRoot(mounts); err != nil {
			return err
		}
	}
	// A mount may cover another's source or the scratch directory (/dev/shm
	// often is a volume), so all are held open before the first is made.
	scratch, err := os.OpenFile(b.scratch, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("opening the scratch directory: %w", err)
	}
	defer scratch.Close() //nolint:errcheck // only a handle
	b.scratch = handle(scratch)
	sources := make([]*os.File, len(mounts))
	for i, m := range mounts {
		if sources[i], err = m.open(); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
		defer sources[i].Close() //nolint:errcheck // only a handle
	}
	if r.Image != nil {
		if err := b.openView(*r.Image, mounts); err != nil {
			return err
		}
	}
	for i, m := range mounts {
		if err := b.mount(sources[i], m); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
	}
	for _, path := range slices.Concat(b.visible(), b.readOnly) {
		if err := remountReadOnly(path); err != nil {
			return err
		}
	}
	if r.Image != nil && r.Image.Twin != "" {
		return bind(r.Image.View, r.Image.Twin)
	}
	return nil
}

// makeRoot shadows / where a mount needs a new entry in it. It comes first,
// because handles on the old root's mounts are worth nothing afterwards.
func (b *builder) makeRoot(mounts []Mount) error {
	for _, m := range mounts {
		_, missing, err := resolve(m.Target)
		if err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
		if missing != "" && filepath.Dir(missing) == "/" {
			return b.shadow("/")
		}
	}
	return nil
}

// visible are those of the sources' own mounts that no other volume hides.
func (b *builder) visible() []string {
	var points []string
	for _, s := range b.below {
		for _, point := range s.points {
			hidden := slices.ContainsFunc(b.volumes, func(volume string) bool {
				return volume != s.of && within(volume, s.of) && within(point, volume)
			})
			if !hidden {
				points = append(points, point)
			}
		}
	}
	return points
}

func (b *builder) mount(source *os.File, m Mount) error {
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, missing, err := b.resolve(m.Target)
	if err != nil {
		return err
	}
	if missing == "" {
		if m.IfMissing {
			return nil
		}
	} else {
		parent := filepath.Dir(missing)
		writable := b.mayWrite(parent)
		if !writable {
			if err := b.shadow(parent); err != nil {
				return err
			}
		}
		if err := makeMountPoint(target, info.IsDir()); err != nil {
			return err
		}
		if writable && m.IfMissing && !b.isOurs(parent) {
			return nil // it is there now, for good
		}
	}
	if err := bind(handle(source), target); err != nil {
		return err
	}
	b.volumes = append(b.volumes, target)
	if m.ReadOnly {
		b.readOnly = append(b.readOnly, target)
	}
	if m.ReadOnly && m.Recursive {
		// Now: other volumes may yet be mounted below it, and those stay as they are.
		below, err := mountsBelow(target)
		if err != nil {
			return err
		}
		b.below = append(b.below, submounts{of: target, points: below})
	}
	return nil
}

// mayWrite tells whether a mount point may be made in an existing directory.
func (b *builder) mayWrite(dir string) bool {
	if b.world && !b.isOurs(dir) {
		info, err := os.Stat(dir)
		return err == nil && info.Mode().Perm()&0o002 != 0
	}
	return unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}

// isOurs tells whether a directory is in a volume or a shadow.
func (b *builder) isOurs(dir string) bool {
	device, err := deviceOf(dir)
	return err == nil && slices.Contains(b.shadows, device) ||
		slices.ContainsFunc(b.volumes, func(volume string) bool { return within(dir, volume) })
}

func (b *builder) resolve(path string) (resolved, missing string, err error) {
	if b.at != "" {
		return ResolveIn(b.at, path)
	}
	return resolve(path)
}

func deviceOf(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("looking at %s: %w", path, err)
	}
	return st.Dev, nil
}

// resolve follows the links of a path as far as it exists. missing is its first
// part that does not, empty if all of it does. What is in a directory that this
// user may not enter (/root, where the MPI operator has SSH keys mounted) does
// not exist for it.
func resolve(path string) (resolved, missing string, err error) {
	existing, rest := filepath.Clean(path), ""
	for {
		real, err := filepath.EvalSymlinks(existing)
		if err == nil {
			resolved = filepath.Join(real, rest)
			if rest != "" {
				first, _, _ := strings.Cut(rest, "/")
				missing = filepath.Join(real, first)
			}
			return resolved, missing, nil
		}
		denied := errors.Is(err, fs.ErrPermission)
		if !denied && !errors.Is(err, fs.ErrNotExist) {
			return "", "", err
		}
		if _, lstatErr := os.Lstat(existing); lstatErr == nil {
			if denied {
				return "", "", err
			}
			return "", "", fmt.Errorf("%s is a link to something that does not exist", existing)
		}
		existing, rest = filepath.Dir(existing), filepath.Join(filepath.Base(existing), rest)
	}
}

// makeMountPoint makes what can be mounted on. Several processes may make the
// same one at a time.
func makeMountPoint(path string, dir bool) error {
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// within tells whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func depth(path string) int { return strings.Count(filepath.Clean(path), "/") }

// handle is a path that leads to an open file whatever its own path is.
func handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
