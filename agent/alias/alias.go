// Package alias lists the programs that the agent's own file is when it is called by
// another name inside a pod. It only names and wires them.
package alias

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/mpirun"
	"github.com/gangline/gangline/agent/sshd/daemon"
	"github.com/gangline/gangline/agent/sshd/sftpserver"
	"github.com/gangline/gangline/mpi/remoteshell"
)

// program is what the file is under a name. It gets the words with which it was
// called, the name first, and returns the exit status.
type program struct {
	name string
	// onPath puts it first on the pod's PATH.
	onPath bool
	main   func(ctx context.Context, args []string) int
}

func programs() []program {
	all := []program{
		{"ssh", true, func(ctx context.Context, args []string) int {
			return remoteshell.Main(ctx, args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
		}},
		{daemon.Name, true, func(ctx context.Context, args []string) int {
			ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
			defer stop()
			return daemon.Main(ctx, args, os.Getenv, os.Stderr)
		}},
		{sftpserver.Name, false, func(_ context.Context, _ []string) int {
			return sftpserver.Main(os.Stdin, os.Stdout, os.Stderr)
		}},
	}
	for _, name := range mpirun.Names() {
		all = append(all, program{name, false, mpirun.Main}) // mpirun.Link puts it on the PATH
	}
	return all
}

// OnPath are the names of the programs that every pod finds first on its PATH.
func OnPath() []string {
	var names []string
	for _, p := range programs() {
		if p.onPath {
			names = append(names, p.name)
		}
	}
	return names
}

// Find returns the program of the name by which this file was called, nil for its
// own.
func Find(args []string) func(ctx context.Context, args []string) int {
	for _, p := range programs() {
		if len(args) > 0 && filepath.Base(args[0]) == p.name {
			return p.main
		}
	}
	return nil
}
