package login

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	// keepAgents is how long an agent's file is kept after a gateway last ran from it.
	// Jobs that were submitted with it start it, and run from it.
	keepAgents = 90 * 24 * time.Hour
	// keepUnfinished is how long a file is kept that is not put in place.
	keepUnfinished = 24 * time.Hour
)

var agentFile = regexp.MustCompile(`^` + agentPrefix + `[0-9a-f]{64}$`)

// Tidy is called by a gateway with its own program's path. If that was put there by
// this package, it notes that the file is in use (by its time), and removes others in
// the directory that have long been out of use.
func Tidy(self string, now time.Time) error {
	dir, own := filepath.Split(self)
	if !agentFile.MatchString(own) {
		return nil
	}
	errs := []error{os.Chtimes(self, now, now)}
	entries, err := os.ReadDir(dir)
	errs = append(errs, err)
	for _, e := range entries {
		keep := keepAgents
		switch {
		case e.Name() == own:
			continue
		case strings.HasPrefix(e.Name(), ".new-"):
			keep = keepUnfinished
		case !agentFile.MatchString(e.Name()):
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > keep {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("tidying up %s: %w", dir, err)
	}
	return nil
}
