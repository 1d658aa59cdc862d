// Command kubectl-gangline is a plugin of kubectl: see package plugin.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gangline/gangline/plugin"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := plugin.New(version)
	command.SetArgs(plugin.Args(os.Args))
	if err := command.ExecuteContext(ctx); err != nil {
		code, silent := plugin.ExitCode(err)
		if !silent {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
		os.Exit(code)
	}
}
