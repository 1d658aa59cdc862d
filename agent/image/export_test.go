package image

import "github.com/gangline/gangline/agent/image/lease"

// SetPace makes waiting short.
func (s *Store) SetPace(p lease.Pace) { s.pace = p }

// Victims is the choice of what is removed.
var Victims = victims

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
