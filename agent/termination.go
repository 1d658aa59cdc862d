package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gangline/gangline/agent/crilog"
)

// Kubelet's bounds on a termination message: 4096 bytes, 12 KiB for all
// containers of a pod, and 80 lines or 2048 bytes of it from a log.
const (
	maxTermination      = 4096
	maxPodTermination   = 12 << 10
	maxTerminationLines = 80
	maxTerminationLog   = 2048
)

func (p *pod) terminationLimit() int {
	return min(maxTermination, maxPodTermination/len(p.containers()))
}

// terminationFile is where a container leaves its last words.
type terminationFile string

// reset empties it. It stays the same file, which may still be mounted.
func (f terminationFile) reset() error {
	if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
		return fmt.Errorf("making the termination message: %w", err)
	}
	err := os.WriteFile(string(f), nil, 0o666) //nolint:gosec // its parent lets in nobody else
	if err == nil {
		err = os.Chmod(string(f), 0o666) //nolint:gosec // as above; the umask must not count
	}
	if err != nil {
		return fmt.Errorf("making the termination message: %w", err)
	}
	return nil
}

// message returns the last words: the file's, or the log's end where the file is
// empty and that is asked for.
func (f terminationFile) message(limit int, fallBack bool, log string) (string, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return "", fmt.Errorf("reading the termination message: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(file, int64(limit)))
	if err != nil {
		return "", fmt.Errorf("reading the termination message: %w", err)
	}
	if len(text) > 0 || !fallBack {
		return string(text), nil
	}
	tail, err := crilog.Tail(log, maxTerminationLines, min(limit, maxTerminationLog))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return tail, err
}
