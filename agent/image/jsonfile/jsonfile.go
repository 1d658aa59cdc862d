package jsonfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gangline/gangline/agent/image/dirs"
)

// Most bounds a file, in bytes: the largest are images' manifests and configurations.
const Most = 16 << 20

// Bytes reads a plain file of at most so many bytes. The store may be writable by many
// users: what is a link, a pipe or the like is an error, and not followed or waited for.
func Bytes(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("reading %s: it is no plain file of at most %d bytes", path, most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// Read reads a plain file of at most Most bytes into a value.
func Read(path string, into any) error {
	data, err := Bytes(path, Most)
	if err != nil {
		return err
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
