package process

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces remembers the private mount namespaces of processes: what runs in
// one of them can be found there whatever it did to its environment. Each is
// held open, because the kernel gives the number of one that is gone to the
// next. Its zero value is ready for use.
type Namespaces struct {
	mu   sync.Mutex
	held map[*Process]namespace
}

type namespace struct {
	number uint64
	file   *os.File
}

// Hold remembers the namespace of a process that has just been started, unless
// it is this program's own or the process has ended.
func (n *Namespaces) Hold(p *Process) {
	file, err := os.Open(mountNamespace(strconv.Itoa(p.pid)))
	if err != nil {
		return
	}
	select {
	case <-p.done: // and its number may be another's by now
		_ = file.Close()
	default:
		n.HoldFile(p, file)
	}
}

// HoldFile remembers a namespace that a process has come into since, by its open file,
// which is the receiver's from then on.
func (n *Namespaces) HoldFile(p *Process, file *os.File) {
	number := numberOf(file)
	if own, _ := mountNamespaceOf("self"); number == 0 || number == own {
		_ = file.Close()
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held == nil {
		n.held = map[*Process]namespace{}
	}
	n.held[p] = namespace{number, file}
}

// Of returns the namespace that is remembered of a process, if any.
func (n *Namespaces) Of(p *Process) []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ns, ok := n.held[p]; ok {
		return []uint64{ns.number}
	}
	return nil
}

// All returns all that are remembered.
func (n *Namespaces) All() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var numbers []uint64
	for _, ns := range n.held {
		numbers = append(numbers, ns.number)
	}
	return numbers
}

// ReleaseUnused forgets the namespaces in which nothing runs any more.
func (n *Namespaces) ReleaseUnused() error {
	n.mu.Lock() // no process may come in between
	defer n.mu.Unlock()
	if len(n.held) == 0 {
		return nil
	}
	pids, err := all()
	if err != nil {
		return err
	}
	used := map[uint64]bool{}
	for _, pid := range pids {
		if number, ok := mountNamespaceOf(strconv.Itoa(pid)); ok {
			used[number] = true
		}
	}
	for p, ns := range n.held {
		if !used[ns.number] {
			_ = ns.file.Close()
			delete(n.held, p)
		}
	}
	return nil
}

func mountNamespace(pid string) string { return filepath.Join("/proc", pid, "ns", "mnt") }

// mountNamespaceOf returns the number of a process's mount namespace. It is not
// known of processes that are gone or somebody else's.
func mountNamespaceOf(pid string) (uint64, bool) {
	var stat unix.Stat_t
	if err := unix.Stat(mountNamespace(pid), &stat); err != nil {
		return 0, false
	}
	return stat.Ino, true
}

func numberOf(file *os.File) uint64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
