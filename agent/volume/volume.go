package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/spool"
)

const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
)

// Write makes the directory hold exactly the files, replacing what an earlier
// Write put there. Where they are there already nothing changes, so that nobody who
// watches the directory is woken for nothing. Paths must be relative and stay inside.
func Write(dir string, files []spool.File, now time.Time) error {
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the volume's directory: %w", err)
	}
	if data, ok := same(dir, files); ok {
		return tidy(dir, data, files) // an earlier Write may have failed after it had published them
	}
	data, err := os.MkdirTemp(dir, now.UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return fmt.Errorf("making the volume's directory: %w", err)
	}
	if err := os.Chmod(data, 0o755); err != nil {
		return fmt.Errorf("making the volume's directory: %w", err)
	}
	for _, f := range files {
		if err := writeFile(filepath.Join(data, f.Path), f); err != nil {
			return errors.Join(err, os.RemoveAll(data))
		}
	}
	if err := publish(dir, filepath.Base(data)); err != nil {
		return errors.Join(err, os.RemoveAll(data))
	}
	return tidy(dir, filepath.Base(data), files)
}

// Resolve returns where a path within a volume's directory really is. It
// follows links, and refuses what leaves the directory.
func Resolve(dir, sub string) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("subPath %q leaves its volume", sub)
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("resolving a volume: %w", err)
	}
	path, err := filepath.EvalSymlinks(filepath.Join(root, sub))
	if err != nil {
		return "", fmt.Errorf("resolving subPath %q: %w", sub, err)
	}
	if inside, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(inside) {
		return "", fmt.Errorf("subPath %q leaves its volume through a link", sub)
	}
	return path, nil
}

// same tells whether a directory holds exactly these files, as an earlier Write
// left them, and the name of the directory of their data.
func same(dir string, files []spool.File) (name string, ok bool) {
	data, err := filepath.EvalSymlinks(filepath.Join(dir, dataLink))
	if err != nil {
		return "", false
	}
	left := make(map[string]spool.File, len(files))
	for _, f := range files {
		left[filepath.Clean(f.Path)] = f
	}
	err = filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		if f, ok := left[name]; !ok || !holds(path, f) {
			return errDiffers
		}
		delete(left, name)
		return nil
	})
	return filepath.Base(data), err == nil && len(left) == 0
}

var errDiffers = errors.New("the files differ")

// holds tells whether a path is the file. The pod's user may have changed it.
func holds(path string, f spool.File) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != fs.FileMode(f.Mode)&fs.ModePerm || info.Size() != int64(len(f.Data)) {
		return false
	}
	data, err := os.ReadFile(path)
	return err == nil && bytes.Equal(data, f.Data)
}

func checkPath(path string) error {
	if !filepath.IsLocal(path) || path == "." || strings.HasPrefix(path, "..") {
		return fmt.Errorf("file %q of a volume: the path must be relative, stay inside and not begin with \"..\"", path)
	}
	return nil
}

func writeFile(path string, f spool.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing file %q of a volume: %w", f.Path, err)
	}
	mode := fs.FileMode(f.Mode) & fs.ModePerm
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing file %q of a volume: %w", f.Path, err)
	}
	_, err = out.Write(f.Data)
	// The umask has no say in the mode, so it is set when the file is there.
	if err := errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return fmt.Errorf("writing file %q of a volume: %w", f.Path, err)
	}
	return nil
}

// publish makes ..data point to the new directory in one step.
func publish(dir, data string) error {
	tmp := filepath.Join(dir, newDataLink)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("publishing a volume: %w", err)
	}
	if err := os.Symlink(data, tmp); err != nil {
		return fmt.Errorf("publishing a volume: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return fmt.Errorf("publishing a volume: %w", err)
	}
	return nil
}

// tidy makes the links that the pod sees, and removes those and the data of
// earlier versions.
func tidy(dir, data string, files []spool.File) error {
	wanted := map[string]bool{dataLink: true, data: true}
	for _, f := range files {
		first, _, _ := strings.Cut(filepath.Clean(f.Path), "/") // "./a" is a
		wanted[first] = true
		err := os.Symlink(filepath.Join(dataLink, first), filepath.Join(dir, first))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("publishing file %q of a volume: %w", f.Path, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("removing a volume's old files: %w", err)
	}
	for _, e := range entries {
		// What is neither a link nor data is a mount point of another volume.
		old := e.Type() == fs.ModeSymlink || strings.HasPrefix(e.Name(), "..")
		if !old || wanted[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("removing a volume's old files: %w", err)
		}
	}
	return nil
}
