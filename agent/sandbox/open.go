package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// open opens what is to be mounted, as a handle that no later change of its path concerns.
func (m Mount) open() (*os.File, error) {
	if !m.NoLinks {
		return os.OpenFile(m.Source, unix.O_PATH, 0)
	}
	fd, err := openNoLinks(m.Source, unix.Openat2)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("a link has come into the path %s since it was looked at, and is not followed: take it away", m.Source)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: m.Source, Err: err}
	}
	return os.NewFile(uintptr(fd), m.Source), nil //nolint:gosec // a file descriptor
}

// openNoLinks opens an absolute path, and fails with ELOOP where a link is in it.
func openNoLinks(path string, openat2 func(int, string, *unix.OpenHow) (int, error)) (int, error) {
	const handle = unix.O_PATH | unix.O_CLOEXEC
	fd, err := openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: handle, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if !errors.Is(err, unix.ENOSYS) {
		return fd, err
	}
	// Kernels before 5.6: name by name.
	if fd, err = unix.Open("/", handle, 0); err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		above := fd
		fd, err = unix.Openat(above, name, handle|unix.O_NOFOLLOW, 0)
		_ = unix.Close(above)
		if err != nil {
			return -1, err
		}
		if err := refuseLink(fd); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// refuseLink fails for the handle of a link.
func refuseLink(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return nil
}
