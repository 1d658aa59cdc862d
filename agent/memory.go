package agent

import "github.com/gangline/gangline/agent/oom"

// codeKilled is the exit code of a program that SIGKILL has ended.
const codeKilled = 137

// watchMemory begins to watch for processes that the kernel kills for want of
// memory; what it returns tells whether there were any since. It is the allocation's
// memory that is wanting, so that of two containers killed at once it may mean
// either.
func watchMemory() (killed func() bool) {
	counter, err := oom.Find()
	if err != nil {
		return func() bool { return false }
	}
	before := counter.Kills()
	return func() bool { return counter.Kills() > before }
}
