package jsonfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gangline/gangline/agent/image/dirs"
	"github.com/gangline/gangline/provider/spool/plain"
)

// Most bounds a file, in bytes: the largest are images' manifests and configurations.
const Most = 16 << 20

// Read reads a plain file of at most Most bytes into a value.
func Read(path string, into any) error {
	data, err := plain.Read(path, Most)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// Write replaces a file, and makes the directories above it that are missing.
func Write(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := dirs.Make(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone if all went well
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
