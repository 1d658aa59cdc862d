// Command gangline-agent is what an allocation runs: the launcher on its first
// node and an agent in each of its tasks. Inside pods the same program is ssh and
// others (see package alias).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/alias"
	"github.com/gangline/gangline/agent/sandbox"
)

func main() {
	if sandbox.IsInit(os.Args) {
		sandbox.Init()
	}
	if program := alias.Find(os.Args); program != nil {
		os.Exit(program(context.Background(), os.Args))
	}
	// Flux tells of a job's time limit by SIGALRM.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGALRM, unix.SIGINT)
	defer stop()
	os.Exit(exitCode(newCommand().ExecuteContext(ctx)))
}

// exit is an exit code that is not to be explained: it is another's.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func exitCode(err error) int {
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "gangline-agent:", err)
	return 1
}
