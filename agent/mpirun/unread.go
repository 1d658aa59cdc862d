package mpirun

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// errUnread says that nobody reads the launcher's output any more, as when "head" has
// seen enough. A process that writes would be ended by SIGPIPE then, but the workload
// manager's command does not mind, and its ranks never learn it.
var errUnread = errors.New("nobody reads the output any more")

// exitUnread is what a shell makes of an end by SIGPIPE.
const exitUnread = 128 + int(unix.SIGPIPE)

// waitUnread waits until nobody reads a file any more. Of what is neither a pipe nor
// a socket that can't be known.
func waitUnread(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return false
	}
	for {
		// Errors are reported without being asked for (poll(2)).
		files := []unix.PollFd{{Fd: int32(f.Fd())}} //nolint:gosec // a file descriptor
		switch n, err := unix.Poll(files, -1); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case n > 0:
			return true
		}
	}
}
