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

// IsFull tells of a write that there was no room for it: the filesystem is full, or the
// user's quota of it. Nothing was written.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Cause is why a file cannot be written, without the file's name: a temporary one has another
// each time, and what is told once would be told at each try.
func Cause(err error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	return err
}

// WhileFull writes something again for as long as there is no space for it, at most for
// FullPatience and until the context ends.
func WhileFull(ctx context.Context, write func() error) error {
	return whileFull(ctx, FullPatience, fullPause, write)
}

func whileFull(ctx context.Context, most, pause time.Duration, write func() error) error {
	for deadline := time.Now().Add(most); ; {
		err := write()
		if !IsFull(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
