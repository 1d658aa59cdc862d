//go:build faults

package faults

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// armed is the point that GANGLINE_FAULT names, and how many times it may still
// be passed. It is read once: the environment of a process is its own for life.
var armed = sync.OnceValue(func() *fault {
	name, number, _ := strings.Cut(os.Getenv(Variable), ":")
	times, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		times = 1
	}
	f := &fault{name: name}
	f.left.Store(times)
	return f
})

type fault struct {
	name string
	left atomic.Int64
}

// At is a point of the program. If it is the armed one, the process dies.
func At(p Point) {
	if f := armed(); f.name == p.String() && f.left.Add(-1) == 0 {
		_, _ = os.Stderr.WriteString(Farewell(p) + "\n") // for the test alone
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way
	}
}
