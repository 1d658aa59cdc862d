package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// Host is a path of the HPC node, found.
type Host struct {
	// Path is where it really is: it leads through no link.
	Path string
	// ReadOnly tells that it lies where pods may only read.
	ReadOnly bool
}

// FindHost finds a path of the HPC node and checks that it is what it has to be;
// what may be made is made. Links must not lead out of the allowed directories. The
// texts of what is wrong are kubelet's (pkg/volume/hostpath).
func FindHost(path string, want spool.Host) (Host, error) {
	found, err := locate(path, want)
	if err != nil {
		return Host{}, err
	}
	if err := found.make(want); err != nil {
		return Host{}, err
	}
	if err := checkType(path, found.Path, want.Type); err != nil {
		return Host{}, err
	}
	if err := checkAccess(path, found.Path); err != nil {
		return Host{}, err
	}
	return Host{Path: found.Path, ReadOnly: found.ReadOnly || want.ReadOnly}, nil
}

// place is where a path leads as far as it exists.
type place struct {
	Host
	missing bool
}

// locate follows the links of a path as far as it exists. What does not exist yet
// has none.
func locate(path string, want spool.Host) (place, error) {
	existing, rest := filepath.Clean(path), ""
	for {
		real, err := filepath.EvalSymlinks(existing)
		if err == nil {
			p := place{Host: Host{Path: filepath.Join(real, rest)}, missing: rest != ""}
			p.ReadOnly, err = allowed(path, p.Path, want.Allowed)
			return p, err
		}
		if errors.Is(err, fs.ErrPermission) {
			return place{}, noAccess(path, existing)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return place{}, fmt.Errorf("hostPath %s: %w", path, err)
		}
		if _, err := os.Lstat(existing); err == nil {
			return place{}, fmt.Errorf("hostPath %s: %s is a link to something that does not exist", path, existing)
		}
		existing, rest = filepath.Dir(existing), filepath.Join(filepath.Base(existing), rest)
	}
}

// allowed finds the deepest allowed directory that a path without links is in. The
// directories themselves may have links in their paths: those are the site's own.
func allowed(path, real string, dirs []spool.AllowedDir) (readOnly bool, err error) {
	deepest, absent := -1, ""
	for _, d := range dirs {
		dir, err := filepath.EvalSymlinks(d.Path)
		if err != nil {
			if below, err := filepath.Rel(d.Path, path); err == nil && filepath.IsLocal(below) {
				absent = d.Path
			}
			continue // then nothing is in it
		}
		inside, err := filepath.Rel(dir, real)
		if err == nil && filepath.IsLocal(inside) && depth(dir) > deepest {
			deepest, readOnly = depth(dir), d.ReadOnly
		}
	}
	if deepest < 0 && absent != "" {
		return false, fmt.Errorf("hostPath %s: the directory %s that the site names for volumes is not there on this HPC node", path, absent)
	}
	if deepest < 0 {
		return false, fmt.Errorf("hostPath %s is %s, which is not in a directory that the site allows", path, real)
	}
	return readOnly, nil
}

// depth is how many names a clean absolute path has.
func depth(path string) int {
	return len(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }))
}

// make makes what is missing, of the types that ask for it, with kubelet's modes unless
// another one is wanted.
func (p place) make(want spool.Host) error {
	if !p.missing {
		return nil
	}
	creates := want.Type == corev1.HostPathDirectoryOrCreate || want.Type == corev1.HostPathFileOrCreate
	if creates && p.ReadOnly {
		return fmt.Errorf("hostPath %s does not exist, and pods may only read there", p.Path)
	}
	var err error
	switch want.Type {
	case corev1.HostPathDirectoryOrCreate:
		err = makeDirs(p.Path, want.Mode)
	case corev1.HostPathFileOrCreate:
		var f *os.File
		if f, err = os.OpenFile(p.Path, os.O_CREATE, 0o644); err == nil {
			err = f.Close()
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return cannotMake(p.Path)
	}
	return err
}

// kinds are the types that a path may have to be, with the words of kubelet.
var kinds = map[corev1.HostPathType]struct {
	is    corev1.HostPathType
	words string
}{
	corev1.HostPathDirectoryOrCreate: {corev1.HostPathDirectory, "directory"},
	corev1.HostPathDirectory:         {corev1.HostPathDirectory, "directory"},
	corev1.HostPathFileOrCreate:      {corev1.HostPathFile, "file"},
	corev1.HostPathFile:              {corev1.HostPathFile, "file"},
	corev1.HostPathSocket:            {corev1.HostPathSocket, "socket file"},
	corev1.HostPathCharDev:           {corev1.HostPathCharDev, "character device"},
	corev1.HostPathBlockDev:          {corev1.HostPathBlockDev, "block device"},
}

// checkType tells what is wrong with what is at a path. Without a type it need only
// exist: nothing could be mounted else.
func checkType(path, real string, kind corev1.HostPathType) error {
	info, err := os.Stat(real)
	want, typed := kinds[kind]
	switch {
	case kind != corev1.HostPathUnset && !typed:
		return fmt.Errorf("%s is an invalid volume type", kind)
	case errors.Is(err, fs.ErrNotExist) && typed:
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: path %q does not exist", path, want.words, path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("path %q does not exist", path)
	case err != nil:
		return err
	case !typed:
		return nil
	}
	is := typeOf(info.Mode())
	if is == corev1.HostPathUnset {
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: only recognise file, directory, socket, block device and character device", path, want.words)
	}
	if is != want.is {
		return fmt.Errorf("hostPath type check failed: %s is not a %s, it's a %s", path, want.words, is)
	}
	return nil
}

func typeOf(mode fs.FileMode) corev1.HostPathType {
	switch {
	case mode.IsDir():
		return corev1.HostPathDirectory
	case mode.IsRegular():
		return corev1.HostPathFile
	case mode&fs.ModeSocket != 0:
		return corev1.HostPathSocket
	case mode&fs.ModeCharDevice != 0:
		return corev1.HostPathCharDev
	case mode&fs.ModeDevice != 0:
		return corev1.HostPathBlockDev
	}
	return corev1.HostPathUnset
}
