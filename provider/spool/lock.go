package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock takes the lock that keeps two providers of one node apart, and waits for
// it until ctx ends. waiting is called once if somebody else holds it.
//
// It also makes submissions safe over a provider's death. A provider that is
// killed can leave an sbatch behind whose request Slurm has not yet answered. A
// list made at that moment does not show the job, and the next provider would
// submit it again. The kernel keeps this lock for as long as the provider or any
// sbatch that it has started lives, because they share one open file. So whoever
// holds it knows that all earlier requests were answered.
//
// The path is best on a local filesystem: over NFS children do not inherit
// locks. There, and where a provider moves to another machine, the claim still
// keeps a gang from running twice.
func Lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the lock's directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	const pollEvery = 100 * time.Millisecond // flock cannot be waited for together with ctx
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(
				fmt.Errorf("waiting for the lock %s: %w; another provider, or an sbatch that an earlier one started, still runs",
					path, context.Cause(ctx)), f.Close())
		case <-tick.C:
		}
	}
}
