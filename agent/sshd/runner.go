package sshd

import (
	"context"
	"io"

	"github.com/gangline/gangline/mpi/sshclient"
)

// PTY asks for a terminal; Size is a terminal's size in characters.
type (
	PTY  = sshclient.PTY
	Size = sshclient.Size
)

// Command is one command to run in the slot's pod.
type Command struct {
	// Container is empty for the pod's first one.
	Container string
	// Argv, if set, is run as it is (kubectl exec). Otherwise Line is what the
	// client asked a shell to run (the SSH protocol's own meaning), or Subsystem
	// one of Config.Subsystems. All empty: a login shell.
	Argv      []string
	Line      string
	Subsystem string
	// Attach, if set, asks for no command: the session joins the container's own
	// process, and ends with it.
	Attach *sshclient.Attach
	// Env holds NAME=value entries that the client sent.
	Env []string
	// PTY is nil where no terminal was asked for. With one, all output belongs
	// on Stdout.
	PTY            *PTY
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize carries new sizes of the terminal, Signals names without SIG
	// ("TERM"). Neither is ever closed.
	Resize  <-chan Size
	Signals <-chan string
}

// Runner runs commands. The agent implements it.
type Runner interface {
	// Run runs a command until it ends and its output is written. The exit
	// status of a process that a signal n killed is 128+n, a shell's way of
	// saying it. An error says that the command could not be started.
	//
	// Run ends all of the command's processes when the context ends: the client
	// has gone. It must not wait for the end of Stdin, which may never come,
	// and leaves alone what a command that ended by itself left running:
	// launchers start daemons that way.
	Run(ctx context.Context, c Command) (exitStatus int, err error)
}
