package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
)

// Place is a private root that stays, for one process after the other to enter: what one
// of them writes there, all see. It is built when the first process needs it.
type Place struct {
	root *Root

	mu         sync.Mutex
	mount, uts *os.File // its namespaces, while it is there
	closed     bool
}

// NewPlace returns a place that is still to be built.
func NewPlace(root *Root) *Place { return &Place{root: root} }

// Close lets go of it. Processes that are in it keep it.
func (p *Place) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.letGo()
}

func (p *Place) letGo() {
	for _, file := range []*os.File{p.mount, p.uts} {
		if file != nil {
			_ = file.Close()
		}
	}
	p.mount, p.uts = nil, nil
}

// Namespaces are the kernel's numbers for its mount namespace, none before it is built;
// see process.Mark.
func (p *Place) Namespaces() []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mount == nil {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(p.mount.Fd()), &stat); err != nil { //nolint:gosec // a file descriptor
		return nil
	}
	return []uint64{stat.Ino}
}

// open builds the place if need be, and returns duplicates of the files of its
// namespaces. A *StartError says why it cannot be built.
func (p *Place) open(ctx context.Context, s Starter) (mount, uts *os.File, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errors.New("the container has ended")
	}
	if p.mount == nil {
		if err := p.build(ctx, s); err != nil {
			p.letGo()
			return nil, nil, err
		}
	}
	if mount, err = duplicate(p.mount); err != nil {
		return nil, nil, err
	}
	if uts, err = duplicate(p.uts); err != nil {
		return nil, nil, errors.Join(err, mount.Close())
	}
	return mount, uts, nil
}

// build has a process build the root, and keeps its namespaces when it ends.
func (p *Place) build(ctx context.Context, s Starter) error {
	var opening error
	s.Started = func(builder *process.Process) { // it waits for its recipe
		if p.mount, opening = os.Open(namespaceOf(builder, "mnt")); opening == nil {
			p.uts, opening = os.Open(namespaceOf(builder, "uts"))
		}
	}
	return errors.Join(s.Build(ctx, p.root), opening)
}

func namespaceOf(p *process.Process, kind string) string {
	return "/proc/" + strconv.Itoa(p.PID()) + "/ns/" + kind
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("entering a private root: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil //nolint:gosec // a file descriptor
}

// enterPlace moves this thread into the place whose files were handed on.
func enterPlace() error {
	// A thread that shares its root with others cannot change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("entering the private root: %w", err)
	}
	if err := unix.Setns(utsFD, unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("entering the private root: its host name: %w", err)
	}
	if err := unix.Setns(mountFD, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering the private root: %w", err)
	}
	return nil
}
