package manager

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// current is the link to the files that count, as the kubelet names it.
const current = "..data"

// writeTogether replaces files of a directory all at once, so that nobody sees a
// certificate with the key of another: the files are links through one link,
// which is renamed. It is what the kubelet does with a mounted Secret. Files that
// are as they should be are left alone.
func writeTogether(dir string, files map[string][]byte) error {
	if areAsWanted(dir, files) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	old, _ := os.Readlink(filepath.Join(dir, current)) // none at the first time
	if err := replace(dir, fresh, files); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, filepath.Base(old)))
}

// replace fills the fresh directory and makes it the current one, last of all.
func replace(dir, fresh string, files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o600); err != nil {
			return err
		}
		if err := link(filepath.Join(current, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return link(filepath.Base(fresh), filepath.Join(dir, current))
}

func areAsWanted(dir string, files map[string][]byte) bool {
	for name, content := range files {
		is, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(is, content) {
			return false
		}
	}
	return true
}

// link makes or replaces a symbolic link.
func link(target, path string) error {
	if is, err := os.Readlink(path); err == nil && is == target {
		return nil
	}
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing what an earlier try has left: %w", err)
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
