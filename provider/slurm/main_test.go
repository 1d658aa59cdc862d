package slurm_test

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/gangline/gangline/provider/site/gateway"
)

// TestMain makes this program what it is told to be: a gateway, or a provider in the
// mode own.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 {
		os.Exit(m.Run())
	}
	ctx, log := context.Background(), slog.New(slog.NewTextHandler(os.Stderr, nil))
	var err error
	switch os.Args[1] {
	case "gateway":
		err = gateway.Serve(ctx, os.Stdin, os.Stdout, log)
	case "own":
		err = serveOwn(ctx, os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		log.Error(err.Error())
		os.Exit(1)
	}
}
