package remoteshell

import (
	"os"
	"path/filepath"
)

// Next finds the program that would run if this one were not there: the first of the
// name on the search path that is not this program, after the place where this program
// stands on it; "" if there is none. So two that stand in front of a program on one path
// can't call each other for ever.
func Next(self, name, searchPath string) string {
	own, err := os.Stat(self)
	if err != nil {
		return ""
	}
	other := ""
	for _, dir := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(dir) {
			continue // "." is no place to look for programs
		}
		candidate := filepath.Join(dir, name)
		info, err := os.Stat(candidate)
		switch {
		case err != nil || info.IsDir() || info.Mode()&0o111 == 0:
		case os.SameFile(info, own):
			other = "" // what came before it was not called either
		case other == "":
			other = candidate
		}
	}
	return other
}
