package gateway

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/gangline/gangline/provider/site"
)

// wireError is an error on its way to the client.
type wireError struct {
	Message string `json:"message"`
	// Errno is the operating system's number, if there is one. Both sides are Linux.
	Errno int `json:"errno,omitempty"`
	// Cause names one of the package site's errors.
	Cause string `json:"cause,omitempty"`
}

// causes are the errors that callers look for.
var causes = []struct {
	name  string
	cause error
}{
	{"timeout", site.ErrTimeout},
	{"too large", site.ErrTooLarge},
	{"not plain", site.ErrNotPlain},
	{"cancelled", context.Canceled},
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Message: err.Error()}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		w.Errno = int(number)
	}
	for _, c := range causes {
		if errors.Is(err, c.cause) {
			w.Cause = c.name
		}
	}
	return w
}

// remoteError is an error that happened in the gateway.
type remoteError struct {
	message string
	cause   error
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.cause }

func (w *wireError) err() error {
	if w == nil {
		return nil
	}
	e := &remoteError{message: w.Message}
	if w.Errno != 0 {
		e.cause = syscall.Errno(w.Errno)
	}
	for _, c := range causes {
		if w.Cause == c.name {
			e.cause = c.cause
		}
	}
	return e
}

// unreachable says that there is no gateway. The cause is there to be read by people
// only: a program that is missing must not look like a file of the spool that is.
func unreachable(cause error) error { return fmt.Errorf("%w: %v", site.ErrUnreachable, cause) }
