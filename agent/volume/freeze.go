package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Freeze makes a second tree of a file or directory, by hard links, which stays as
// it is whatever Write does to the first one. Both must be on one filesystem. One
// that is there already is left as it is.
func Freeze(source, target string) error {
	if _, err := os.Lstat(target); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("keeping a part of a volume: %w", err)
	}
	made, err := os.MkdirTemp(filepath.Dir(target), ".new-")
	if err != nil {
		return fmt.Errorf("keeping a part of a volume: %w", err)
	}
	tree := filepath.Join(made, "tree")
	err = linkTree(source, tree)
	if err == nil {
		err = os.Rename(tree, target)
	}
	if err = errors.Join(err, os.RemoveAll(made)); err != nil {
		return fmt.Errorf("keeping a part of a volume: %w", err)
	}
	return nil
}

func linkTree(source, target string) error {
	return filepath.WalkDir(source, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Mkdir(filepath.Join(target, name), 0o755)
		}
		return os.Link(path, filepath.Join(target, name))
	})
}
