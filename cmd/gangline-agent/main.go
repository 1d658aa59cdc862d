// Command gangline-agent is what an allocation runs: the launcher on its first
// node and an agent in each of its tasks. Inside pods the same program is ssh.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/mpi/remoteshell"
)

func main() {
	if sandbox.IsInit(os.Args) {
		sandbox.Init()
	}
	if filepath.Base(os.Args[0]) == "ssh" {
		os.Exit(remoteshell.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
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
