package shell

import (
	"context"

	"golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
)

// sizes are the sizes that a terminal has had, the first one at once.
type sizes struct {
	ctx     context.Context
	fd      int
	changes <-chan struct{}
	last    remotecommand.TerminalSize
}

func newSizes(ctx context.Context, fd int) *sizes {
	return &sizes{ctx: ctx, fd: fd, changes: changesOfSize(ctx)}
}

// Next implements remotecommand.TerminalSizeQueue: it waits for a new size, and returns nil
// at the end.
func (s *sizes) Next() *remotecommand.TerminalSize {
	for {
		if width, height, err := term.GetSize(s.fd); err == nil {
			size := remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}
			if size != s.last {
				s.last = size
				return &size
			}
		}
		select {
		case <-s.ctx.Done():
			return nil
		case <-s.changes:
		}
	}
}
