package supervisor

import (
	"fmt"
	"os"
	"runtime"

	"github.com/gangline/gangline/test/slurm/internal/machine"
)

// Name is argv[0] of a supervisor; argv[1] is the cluster's directory.
const Name = "gangline-devslurm:supervisor"

func init() {
	var run func([]string) error
	switch os.Args[0] {
	case Name:
		// Machines die with the thread that starts them, so only the main thread,
		// which lives as long as the process, may start them.
		runtime.LockOSThread()
		run = Run
	case machine.InitName:
		run = machine.RunInit
	default:
		return
	}
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, os.Args[0]+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}
