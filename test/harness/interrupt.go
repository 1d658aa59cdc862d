package harness

import (
	"context"
	"errors"
)

// ErrInterrupted is how a run ends that was asked to.
var ErrInterrupted = errors.New("interrupted")

// Interrupted is what there is to say of how something ended: where ctx is over only that,
// and nothing of the failures that it has caused.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// ExitCode is that of a program that ends with an error; for one that was interrupted it is
// the shell's.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrInterrupted):
		return 130
	}
	return 1
}
