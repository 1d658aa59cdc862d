package remoteshell

import (
	"os"
	"path/filepath"
)

// otherSSH finds the ssh that would run if this one were not there: the first on
// the search path that is not this program, after the place where this program
// stands on it. So two remote shells on one path can't call each other for ever.
func otherSSH(self, searchPath string) string {
	own, err := os.Stat(self)
	if err != nil {
		return ""
	}
	other := ""
	for _, dir := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(dir) {
			continue // "." on the path is no place to look for programs
		}
		candidate := filepath.Join(dir, "ssh")
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
