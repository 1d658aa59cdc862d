package site

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"time"

	"github.com/gangline/gangline/provider/spool"
)

var (
	// ErrUnreachable says that the way to the site is cut, or that the caller did not wait
	// for the answer: nothing was learnt, and what was asked for may have been done, or be
	// done yet, all the same.
	ErrUnreachable = errors.New("the HPC site cannot be reached")
	// ErrTimeout says that a command gave no answer within its time and was killed.
	ErrTimeout = errors.New("no answer in time")
	// ErrTooLarge says that a file or a command's output is larger than anything
	// honest.
	ErrTooLarge = errors.New("larger than anything that is expected")
	// ErrNotPlain says that a link, a pipe or the like is in a file's place.
	ErrNotPlain = errors.New("not a plain file")
)

// Limits of what is read, in bytes.
const (
	// MaxFile bounds a file: the largest honest one holds a pod's ConfigMaps.
	MaxFile = 64 << 20
	// MaxOutput bounds what a command prints on each of its streams.
	MaxOutput = 32 << 20
	// MaxChanged is what one call of Changed reads, apart from a file that is
	// larger alone.
	MaxChanged = 16 << 20
	// MaxPiece bounds one ReadAt.
	MaxPiece = 1 << 20
)

// Site is an HPC site as one user of it sees it. Its methods may be called from
// several goroutines.
type Site interface {
	Files
	Commands
	Dialer
}

// Files are the user's files. Errors hold those of package io/fs. All paths are
// absolute.
type Files interface {
	// Write replaces a file as a whole, on disk when it returns.
	Write(ctx context.Context, path string, data []byte, mode fs.FileMode) error
	// Changed reads those plain files that are not as they were when they had the stamp.
	// All is one round trip. What goes beyond MaxChanged is left for the next call;
	// an answer that is empty says that nothing has changed.
	Changed(ctx context.Context, files []Watched) ([]Change, error)
	// List lists a directory, or nothing where there is none.
	List(ctx context.Context, dir string) ([]Entry, error)
	// Names and ReadAt look at what lies below a root, and follow no link out of it.
	// Names returns fs.ErrNotExist for a directory that is not there.
	Names(ctx context.Context, root, dir string) ([]string, error)
	// ReadAt reads at most n and MaxPiece bytes of a plain file.
	ReadAt(ctx context.Context, root, name string, offset int64, n int) (Piece, error)

	// CreateAllocation, RemoveAllocation, Sweep are those of package spool.
	CreateAllocation(ctx context.Context, root spool.Root, g spool.Gang) error
	RemoveAllocation(ctx context.Context, dir spool.Dir) error
	Sweep(ctx context.Context, root spool.Root, node string) error
}

// Commands run programs as the user.
type Commands interface {
	// User says who the user is.
	User(ctx context.Context) (User, error)
	// Find finds programs on the site's search path, or those that have a path. Those
	// that are not there are left out.
	Find(ctx context.Context, names ...string) (map[string]string, error)
	// Run runs a command to its end. A command that fails is no error: its Result
	// says so.
	Run(ctx context.Context, c Command) (Result, error)
}

// Dialer reaches the HPC nodes.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Stamp tells one version of a file from the next. The zero value is of a file that
// is not there, or has not been seen. Each version is a file of its own, so the inode
// differs where size and time are the same.
type Stamp struct {
	// Modified is in nanoseconds since 1970, by the file server's clock.
	Modified int64  `json:"m"`
	Size     int64  `json:"s"`
	Inode    uint64 `json:"i"`
}

// Time is when the file was written.
func (s Stamp) Time() time.Time { return time.Unix(0, s.Modified) }

// Watched is a file, and the version of it that is known.
type Watched struct {
	Path  string `json:"p"`
	Stamp Stamp  `json:"t,omitzero"`
	// Most is how many bytes the file may have; 0 for MaxFile. One that has more is
	// ErrTooLarge and not read.
	Most int64 `json:"m,omitempty"`
}

// Watch is a file of the spool that holds such a value, as one that has not been seen.
func Watch(path string, v any) Watched { return Watched{Path: path, Most: spool.Most(v)} }

// most is how many bytes are read.
func (w Watched) most() int64 {
	if w.Most > 0 {
		return min(w.Most, MaxFile)
	}
	return MaxFile
}

// Fits tells whether what came of the file is no more than was asked for.
func (w Watched) Fits(data []byte) bool { return int64(len(data)) <= w.most() }

// Change is a file that has changed.
type Change struct {
	// Index is the file's place in the question.
	Index int
	// Stamp is zero for a file that is gone.
	Stamp Stamp
	Data  []byte
	// Err says why the file could not be read.
	Err error
}

// Entry is one name in a directory.
type Entry struct {
	Name string `json:"name"`
	Dir  bool   `json:"dir,omitempty"`
}

// Piece is a part of a file, and what the file is.
type Piece struct {
	Data  []byte
	Stamp Stamp
}

// User is the user as whom everything is done.
type User struct {
	Name string `json:"name"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Home string `json:"home"`
	// Host is the machine's name.
	Host string `json:"host"`
}

// Command is a program to be run. No shell reads it.
type Command struct {
	// Argv begins with the program's absolute path.
	Argv []string `json:"argv"`
	// Env is the whole environment.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory; empty for /.
	Dir   string `json:"dir,omitempty"`
	Stdin []byte `json:"-"`
	// Timeout is when the command is killed with all that it has started; 0 for no
	// such time.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Locked makes the command inherit the site's lock (see spool.Lock), so that who
	// gets the lock later knows that the command has ended. Such a command is left
	// alone when the context ends or the caller is gone: its Timeout ends it.
	Locked bool `json:"locked,omitempty"`
}

// Result is how a command ended.
type Result struct {
	Stdout []byte `json:"-"`
	Stderr []byte `json:"-"`
	// Exit is the exit status, or -1 for a command that a signal ended.
	Exit int `json:"exit"`
	// Ended says the same in words: "exit status 1", "signal: killed".
	Ended string `json:"ended"`
}
