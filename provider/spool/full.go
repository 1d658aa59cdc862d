package spool

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// FullPatience is how long what cannot be written for want of space is tried again: who
// uses up the space is another gang, mostly, and the spool is cleared all the time.
const FullPatience = 5 * time.Minute

// fullPause is the time between two tries.
const fullPause = time.Second

// WhileFull writes something again for as long as there is no space for it, at most for
// FullPatience and until the context ends.
func WhileFull(ctx context.Context, write func() error) error {
	return whileFull(ctx, FullPatience, fullPause, write)
}

func whileFull(ctx context.Context, most, pause time.Duration, write func() error) error {
	for deadline := time.Now().Add(most); ; {
		err := write()
		full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		if !full || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
