package remoteshell

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/gangline/gangline/mpi/sshclient"
)

// terminal asks for a terminal where one is wanted, and makes ours raw for it.
func (s shell) terminal(ctx context.Context, session *sshclient.Session) (restore func(), err error) {
	restore = func() {}
	local, _ := s.stdin.(*os.File)
	if local != nil && (s.noStdin || !term.IsTerminal(int(local.Fd()))) {
		local = nil
	}
	wanted := s.tty == ttyForce || local != nil && (s.tty == ttyAsk || s.tty == ttyAuto && session.Request == "shell")
	if !wanted {
		if s.tty == ttyAsk {
			s.say("Pseudo-terminal will not be allocated because stdin is not a terminal.")
		}
		return restore, nil
	}
	session.PTY = &sshclient.PTY{Term: s.term}
	if local == nil {
		return restore, nil
	}
	session.PTY.Size = sizeOf(local)
	session.Resize = watchSize(ctx, local)
	state, err := term.MakeRaw(int(local.Fd()))
	if err != nil {
		return restore, fmt.Errorf("setting up the terminal: %w", err)
	}
	return func() { _ = term.Restore(int(local.Fd()), state) }, nil
}

func sizeOf(terminal *os.File) sshclient.Size {
	columns, rows, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return sshclient.Size{} // unknown, as RFC 4254 has it
	}
	return sshclient.Size{Columns: uint16(columns), Rows: uint16(rows)}
}

func watchSize(ctx context.Context, terminal *os.File) <-chan sshclient.Size {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	out := make(chan sshclient.Size)
	go func() {
		defer signal.Stop(changed)
		for {
			select {
			case <-changed:
				select {
				case out <- sizeOf(terminal):
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
