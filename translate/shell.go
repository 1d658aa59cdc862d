package translate

import (
	"path"
	"slices"
)

// beginsWithShell tells that args without a command are one all the same: what
// kubectl run IMAGE -- sh makes. No image's entrypoint is known to take a shell for
// its first argument, and the images that are run so have none.
func beginsWithShell(args []string) bool {
	return len(args) > 0 && slices.Contains(shells, path.Base(args[0]))
}
