package agent

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/provider/spool"
)

// The real-time signals that programs may use; the C library keeps the first two
// of the kernel's to itself.
const (
	firstRealTime = 34 // SIGRTMIN
	lastRealTime  = 64 // SIGRTMAX
)

// stopSignal is what asks a container to end: its lifecycle.stopSignal, or SIGTERM.
func stopSignal(c spool.ContainerOrders) (unix.Signal, error) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return unix.SIGTERM, nil
	}
	name := string(*c.Lifecycle.StopSignal)
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	for base, first := range map[string]int{"SIGRTMIN": firstRealTime, "SIGRTMAX": lastRealTime} {
		rest, ok := strings.CutPrefix(name, base)
		if !ok {
			continue
		}
		offset := 0
		if rest != "" {
			var err error
			if offset, err = strconv.Atoi(rest); err != nil {
				break
			}
		}
		if n := first + offset; n >= firstRealTime && n <= lastRealTime {
			return unix.Signal(n), nil
		}
	}
	return unix.SIGTERM, fmt.Errorf("there is no signal %q", name)
}
