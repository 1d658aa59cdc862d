package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/crilog"
)

// Kubelet's bounds on a termination message: the last 4096 bytes of the file, or
// the last 80 lines and 2048 bytes of a log; and of that the beginning, so that all
// containers of a pod have 12 KiB at most.
const (
	maxTermination      = 4096
	maxPodTermination   = 12 << 10
	maxTerminationLines = 80
	maxTerminationLog   = 2048
)

func (p *pod) terminationLimit() int { return maxPodTermination / len(p.containers()) }

// terminationFile is where a container leaves its last words.
type terminationFile string

// reset empties it. It stays the same file, which may still be mounted, unless
// the container put something else in its place.
func (f terminationFile) reset() error {
	err := os.MkdirAll(filepath.Dir(string(f)), 0o755)
	if info, statErr := os.Lstat(string(f)); err == nil && statErr == nil && !info.Mode().IsRegular() {
		err = os.RemoveAll(string(f))
	}
	if err == nil {
		err = f.empty()
	}
	if err != nil {
		return fmt.Errorf("making the termination message: %w", err)
	}
	return nil
}

func (f terminationFile) empty() error {
	file, err := f.open(os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(file.Chmod(0o666), file.Close()) // the umask must not count, and its parent lets in nobody else
}

// open opens the file. The container may have replaced it: a FIFO must not hold
// the agent up, and a link must not lead it elsewhere.
func (f terminationFile) open(flags int, perm os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(string(f), flags|unix.O_NONBLOCK|unix.O_NOFOLLOW, perm)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file any more", filepath.Base(string(f)))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// message returns the last words: the file's, or the log's end where the file is
// empty and that is asked for.
func (f terminationFile) message(limit int, fallBack bool, log string) (string, error) {
	file, err := f.open(os.O_RDONLY, 0)
	if err != nil {
		return "", fmt.Errorf("reading the termination message: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	text, err := lastBytes(file, maxTermination)
	if err != nil {
		return "", fmt.Errorf("reading the termination message: %w", err)
	}
	if len(text) > 0 || !fallBack {
		return beginning(string(text), limit), nil
	}
	tail, err := crilog.Tail(log, maxTerminationLines, maxTerminationLog)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return beginning(tail, limit), err
}

// lastBytes reads the end of a file that may still grow.
func lastBytes(file *os.File, limit int64) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(file, max(info.Size()-limit, 0), limit))
}

// beginning cuts a text to so many bytes, and what is no UTF-8 out of it: the API
// does not take that.
func beginning(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}
