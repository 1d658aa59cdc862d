package flux

import (
	"fmt"
	"strings"
)

// State is a state of a job, or a set of them. RFC 21.
type State int

// The states, in the order in which a job goes through them.
const (
	StateNew      State = 1 << iota // not seen by the job manager yet
	StateDepend                     // waits for other jobs
	StatePriority                   // waits for its priority
	StateSched                      // waits for resources
	StateRun                        // has its resources
	StateCleanup                    // has ended, or is being ended
	StateInactive                   // is over

	StatesPending = StateDepend | StatePriority | StateSched
	StatesRunning = StateRun | StateCleanup
	StatesActive  = StatesPending | StatesRunning
)

// Outcome is how a job ended, or a set of ways to end.
type Outcome int

const (
	Completed Outcome = 1 << iota // exit code 0
	Failed
	Canceled
	Timeout
)

func names[T ~int](value T, all []string) string {
	var found []string
	for i, name := range all {
		if value&(1<<i) != 0 {
			found = append(found, name)
			value &^= 1 << i
		}
	}
	if value != 0 || len(found) == 0 {
		found = append(found, fmt.Sprintf("%#x", int(value)))
	}
	return strings.Join(found, "|")
}

// String is Flux's own word, e.g. "SCHED".
func (s State) String() string {
	return names(s, []string{"NEW", "DEPEND", "PRIORITY", "SCHED", "RUN", "CLEANUP", "INACTIVE"})
}

// String is Flux's own word, e.g. "CANCELED".
func (o Outcome) String() string {
	return names(o, []string{"COMPLETED", "FAILED", "CANCELED", "TIMEOUT"})
}
