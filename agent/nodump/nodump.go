// Package nodump keeps what a process knows from its user's other processes, and from core
// dumps: gangline-node knows tokens and the seed of the gangs' keys, an agent the keys and
// files of pods.
//
// It is no wall against the user: who owns a process can replace its program, or what it
// reads. What the process starts is not affected.
package nodump

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Apply makes the calling process one that leaves no core dump, and whose memory,
// environment and open files nobody can look at without a privilege (prctl(2),
// PR_SET_DUMPABLE; proc(5)). An exec undoes that, so it does not reach what the process
// starts.
func Apply() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping this process's memory from others: %w", err)
	}
	return nil
}
