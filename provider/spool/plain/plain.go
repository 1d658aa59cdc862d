// Package plain reads files from directories that others may write to.
package plain

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Read reads a plain file of at most so many bytes. Who may write to its directory may put
// a link, a pipe or something huge in its place: that is an error, and not followed, waited
// for or read.
func Read(path string, most int64) ([]byte, error) {
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
		return nil, fmt.Errorf("it is no plain file of at most %d bytes", most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
