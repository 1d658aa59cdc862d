package image

import (
	"context"
	"time"

	"github.com/gangline/gangline/agent/image/lease"
)

// SetPace makes waiting short.
func (s *Store) SetPace(p lease.Pace) { s.pace = p }

// Victims is the choice of what is removed.
var Victims = victims

// Use marks the image in a directory as used, and says whether it is so.
func (s *Store) Use(ctx context.Context, dir string) (marked bool, release func(), err error) {
	release, err = s.use(ctx, dir)
	if err != nil {
		return false, nil, err
	}
	_, users, err := uses(dir, time.Now())
	return len(users) > 0, release, err
}

// Remove removes the image in a directory.
func (s *Store) Remove(dir string) error {
	_, err := s.remove(Entry{dir: dir})
	return err
}

// Touch confirms a mark.
var Touch = touch

// CommandLine is what a form is made of a tree by.
func CommandLine(f Form, tree, dst string) []string {
	c := converters[f]
	return append([]string{c.programs[0]}, c.args(tree, dst)...)
}

// ApptainerEnv reads a sandbox's environment.
var ApptainerEnv = apptainerEnv

// Shrunk waits until nothing is being removed.
func (s *Store) Shrunk() {
	s.pruning.Lock()
	defer s.pruning.Unlock()
}
