package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerFile is the file in a slot's directory that its agent keeps locked while
// it lives. It holds the node's name: where nodes share the parent directory, a
// lock may be known on one of them only.
const ownerFile = ".owner"

// deadPrefix begins the names of directories that are being removed.
const deadPrefix = ".dead-"

// slotDirName is how directories of slots are called, see slot.dirName.
var slotDirName = regexp.MustCompile(`^.+-\d+$`)

// lockSlotDir marks a slot's new directory as one that is in use on this node.
// The lock lasts until the file is closed, by the agent's death at the latest.
// The mark appears when it is locked and complete.
func lockSlotDir(dir, node string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ownerFile+"-*")
	if err != nil {
		return nil, fmt.Errorf("marking the slot's directory: %w", err)
	}
	// Where the filesystem has no locks there is no mark, and nobody but the
	// slot's next agent removes the directory.
	if !lock(file) {
		return file, nil
	}
	_, err = file.WriteString(node)
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(dir, ownerFile))
	}
	if err != nil {
		return nil, fmt.Errorf("marking the slot's directory: %w", errors.Join(err, file.Close()))
	}
	return file, nil
}

func lock(file *os.File) bool {
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil //nolint:gosec // a file descriptor
}

// RemoveLeftovers removes the files of agents that died on this node without
// doing so; there may be secrets among them. What it cannot remove it logs.
func (c Config) RemoveLeftovers() {
	for _, base := range c.bases() {
		own := []string{base}
		if others, err := filepath.Glob(base + "-[0-9]*"); err == nil { // see ownDir
			own = append(own, others...)
		}
		for _, dir := range own {
			if isOwnDir(dir) {
				removeLeftovers(dir, c.Node, c.Logger)
			}
		}
		if base != c.Scratch {
			c.removeJobDir(base)
		}
	}
}

func removeLeftovers(base, node string, logger *slog.Logger) {
	entries, err := os.ReadDir(base)
	if err != nil {
		logger.Warn("looking for what dead agents left", "error", err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !slotDirName.MatchString(e.Name()) {
			continue
		}
		if err := removeLeftover(filepath.Join(base, e.Name()), node); err != nil {
			logger.Warn("removing what a dead agent left", "dir", e.Name(), "error", err)
		}
	}
}

// removeLeftover removes a slot's directory unless an agent uses it or it cannot
// be told.
func removeLeftover(dir, node string) error {
	if strings.HasPrefix(filepath.Base(dir), deadPrefix) {
		return removeAll(dir) // somebody has not finished
	}
	file, err := os.OpenFile(filepath.Join(dir, ownerFile), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil //nolint:nilerr // not marked: being made, or being removed
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if !lock(file) {
		return nil
	}
	owner, err := io.ReadAll(file)
	if err != nil || string(owner) != node {
		return nil //nolint:nilerr // as above
	}
	// The slot's next agent may be making the directory anew: take away only what
	// is locked, and by another name.
	locked, err := file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(file.Name()); err != nil || !os.SameFile(locked, there) {
		return nil //nolint:nilerr // as above
	}
	dead := filepath.Join(filepath.Dir(dir), deadPrefix+filepath.Base(dir)+"-"+strconv.Itoa(os.Getpid()))
	if err := os.Rename(dir, dead); err != nil {
		return err
	}
	return removeAll(dead)
}
