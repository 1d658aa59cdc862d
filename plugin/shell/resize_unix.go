//go:build unix

package shell

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// changesOfSize has an element after the terminal's size has changed.
func changesOfSize(ctx context.Context) <-chan struct{} {
	signals, changes := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			select {
			case changes <- struct{}{}:
			default: // one look sees them all
			}
		}
	}()
	return changes
}
