package remoteshell

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// termPatience is for how long after the first SIGTERM others are not heeded:
// workload managers send several when a job ends, and the command is to have
// its time. Only a person sends a second SIGINT.
const termPatience = 5 * time.Second

// forwardSignals sends the signals that we get to the command. The second of one
// kind ends us: the first has not helped (of SIGTERM, see termPatience). What our parent has us ignore, as nohup
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
		first := map[os.Signal]time.Time{}
		for {
			select {
			case sig := <-got:
				since, again := first[sig]
				switch {
				case !again:
					first[sig] = time.Now()
					out <- names[sig]
				case sig == syscall.SIGTERM && time.Since(since) < termPatience:
				default:
					end(fmt.Errorf("ended by a second %s", sig))
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
