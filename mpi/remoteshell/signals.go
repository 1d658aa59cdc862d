package remoteshell

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// forwardSignals sends the signals that we get to the command. The second of one
// kind ends us: the first has not helped. What our parent has us ignore, as nohup
// does, stays ignored.
func forwardSignals(ctx context.Context, end context.CancelCauseFunc) <-chan string {
	names := map[os.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"}
	got := make(chan os.Signal, len(names))
	for sig := range names {
		if !signal.Ignored(sig) {
			signal.Notify(got, sig)
		}
	}
	out := make(chan string, len(names))
	go func() {
		defer signal.Stop(got)
		seen := map[os.Signal]bool{}
		for {
			select {
			case sig := <-got:
				if seen[sig] {
					end(fmt.Errorf("ended by a second %s", sig))
					return
				}
				seen[sig] = true
				out <- names[sig]
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
