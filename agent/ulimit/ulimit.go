package ulimit

import (
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/provider/spool"
)

// numbers are the limits by their names.
func numbers() map[string]int {
	return map[string]int{
		"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
		"memlock": unix.RLIMIT_MEMLOCK, "msgqueue": unix.RLIMIT_MSGQUEUE, "nofile": unix.RLIMIT_NOFILE,
		"nproc": unix.RLIMIT_NPROC, "sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
	}
}

// Set sets soft limits of this process, each as far as its hard limit allows. What the
// process becomes by exec has them.
func Set(limits []spool.Limit) error {
	for _, l := range limits {
		number, have, err := get(l.Name)
		if err != nil {
			return err
		}
		have.Cur = min(l.Value, have.Max)
		// The runtime raises the limit of open files for itself and puts it back at an
		// exec, unless it is set by this call.
		if err := syscall.Setrlimit(number, &have); err != nil {
			return fmt.Errorf("setting the limit %s to %s: %w", l.Name, text(have.Cur), err)
		}
	}
	return nil
}

// Short tells of the limits for which this node's hard limits are too low, a sentence for
// each.
func Short(limits []spool.Limit) []string {
	var short []string
	for _, l := range limits {
		_, have, err := get(l.Name)
		switch {
		case err != nil:
			short = append(short, err.Error())
		case !l.Silent && l.Value > have.Max:
			short = append(short, fmt.Sprintf("the limit %s is to be %s, and this node's hard limit is %s: have the site raise that for the workload manager's daemon and its jobs",
				l.Name, text(l.Value), text(have.Max)))
		}
	}
	return short
}

// get reads a limit of this process.
func get(name string) (number int, have syscall.Rlimit, err error) {
	number, known := numbers()[name]
	if !known {
		return 0, have, fmt.Errorf("there is no limit %q that this agent knows: update gangline-agent", name)
	}
	if err := syscall.Getrlimit(number, &have); err != nil {
		return 0, have, fmt.Errorf("reading the limit %s: %w", name, err)
	}
	return number, have, nil
}

func text(value uint64) string {
	if value == spool.Unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(value, 10)
}
