package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/login"
)

func gatewayCommand() *cobra.Command {
	var host, port string
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve this user's files and the workload manager's tools to gangline-node",
		Long: `What gangline-node starts as another user, or on a login node, to act there for
it. It speaks on its standard input and output and ends with them, or when
gangline-node has been silent for too long. An sbatch that runs is waited for.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const threads = 2 // login nodes are everybody's
			runtime.GOMAXPROCS(threads)
			unix.Umask(0o077)
			// An answer that nobody takes is an error like any other, and does not kill.
			// Ignored, the signal would be so in the tools too.
			signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program's file: %w", err)
			}
			log := newLogger()
			if host != "" {
				return gateway.Connect(cmd.Context(), net.JoinHostPort(host, port), os.Stdin, os.Stdout)
			}
			go tidyDaily(cmd.Context(), self, log)
			return gateway.Serve(cmd.Context(), os.Stdin, os.Stdout, log)
		},
	}
	cmd.Flags().StringVar(&host, "connect-host", "", "do not serve: join standard input and output to a TCP connection to this `host`")
	cmd.Flags().StringVar(&port, "connect-port", "", "and this `port`")
	cmd.MarkFlagsRequiredTogether("connect-host", "connect-port")
	return cmd
}

// tidyDaily keeps the login node's directory of agents tidy. A gateway may run for
// months, and its own file must not look like one that nobody needs.
func tidyDaily(ctx context.Context, self string, log *slog.Logger) {
	const daily = 24 * time.Hour
	ticker := time.NewTicker(daily)
	defer ticker.Stop()
	for {
		if err := login.Tidy(self, time.Now()); err != nil {
			log.Warn("old agents are left", "error", err.Error())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
