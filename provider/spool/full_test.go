package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhileFull(t *testing.T) {
	full := fmt.Errorf("taking the claim: %w", &fs.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC})
	quota, other := error(syscall.EDQUOT), errors.New("other")
	for sentence, tc := range map[string]struct {
		answers []error
		most    time.Duration
		calls   int
		want    error
	}{
		"there is space":             {[]error{nil}, time.Minute, 1, nil},
		"others make some":           {[]error{full, quota, nil}, time.Minute, 3, nil},
		"something else is wrong":    {[]error{full, other}, time.Minute, 2, other},
		"it stays full for too long": {[]error{full}, -1, 1, syscall.ENOSPC},
	} {
		t.Run(sentence, func(t *testing.T) {
			calls := 0
			err := whileFull(t.Context(), tc.most, time.Millisecond, func() error { calls++; return tc.answers[calls-1] })
			assert.ErrorIs(t, err, tc.want)
			assert.Equal(t, tc.calls, calls)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, whileFull(ctx, time.Minute, time.Minute, func() error { return full }), syscall.ENOSPC)
}
