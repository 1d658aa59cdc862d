package volume

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Usage is what a directory and all below it hold, in bytes of the filesystem's
// blocks, as du(1) counts: a file with several names once, and what cannot be read
// not at all. It stops counting beyond enough bytes; 0 or less means to count all.
func Usage(ctx context.Context, dir string, enough int64) (int64, error) {
	var total int64
	type inode struct{ device, number uint64 }
	seen := map[inode]bool{}
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // gone meanwhile, or closed to us
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil
		}
		if st.Nlink > 1 && !e.IsDir() {
			id := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between systems
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		const block = 512 // whatever the filesystem's own (stat(2), st_blocks)
		if total += st.Blocks * block; enough > 0 && total > enough {
			return filepath.SkipAll
		}
		return nil
	})
	return total, err
}
