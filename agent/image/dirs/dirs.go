package dirs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// rights are what a directory gets from the one above it.
const rights = fs.ModePerm | fs.ModeSetgid | fs.ModeSticky

// Make makes a directory, and those above it that are missing, each with the rights of
// the one above it.
func Make(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err = Make(filepath.Dir(dir)); err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return err
	}
	return os.Chmod(dir, above.Mode()&rights|0o700)
}
