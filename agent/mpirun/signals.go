package mpirun

import (
	"context"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

// signals carries the signals that are passed on to the ranks, by their names
// without SIG. What our parent has us ignore, as nohup does, stays ignored.
func signals(ctx context.Context) <-chan string {
	passed := []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	got := make(chan os.Signal, len(passed))
	for _, s := range passed {
		if !signal.Ignored(s) {
			signal.Notify(got, s)
		}
	}
	out := make(chan string, len(passed))
	go func() {
		defer signal.Stop(got)
		for {
			select {
			case s := <-got:
				if s, ok := s.(unix.Signal); ok {
					out <- strings.TrimPrefix(unix.SignalName(s), "SIG")
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
