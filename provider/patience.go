package provider

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// startPatience is how long a process that starts bears with an API server that does
	// not answer, or that does not know its own rules yet: it starts as well, mostly. An
	// init system would start the process again, but after ever longer pauses.
	startPatience = 20 * time.Second
	// askAgain is the time between two tries.
	askAgain = 500 * time.Millisecond
)

// transient tells whether a call of the API server has failed in a way that passes.
func transient(err error) bool {
	for _, is := range []func(error) bool{
		utilnet.IsConnectionRefused, utilnet.IsConnectionReset, utilnet.IsProbableEOF, utilnet.IsTimeout,
		apierrors.IsServerTimeout, apierrors.IsTimeout, apierrors.IsServiceUnavailable,
		apierrors.IsTooManyRequests, apierrors.IsInternalError,
	} {
		if is(err) {
			return true
		}
		// Those of utilnet do not look into all that wraps an error.
		if inner := errors.Unwrap(err); inner != nil && is(inner) {
			return true
		}
	}
	return false
}

// patiently makes a call again for as long as its failure passes, at most for the given
// time.
func patiently(ctx context.Context, most, pause time.Duration, passes func(error) bool, call func(context.Context) error) error {
	told := false
	for deadline := time.Now().Add(most); ; {
		err := call(ctx)
		if err == nil || !passes(err) || time.Now().After(deadline) {
			return err
		}
		if !told {
			logr.FromContextOrDiscard(ctx).Info("the API server does not answer as it should; asking again", "error", err.Error())
			told = true
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
	}
}
