package flux

import (
	"errors"
	"syscall"
)

var (
	// ErrUnavailable says that libflux-core cannot be used on this machine, or by this program.
	ErrUnavailable = errors.New("there is no Flux")
	// ErrLost says that the connection to the broker has broken. Whether requests that
	// were not answered have been carried out is not known.
	ErrLost = errors.New("the connection to the Flux broker is lost")
	// ErrClosed says that the handle was closed.
	ErrClosed = errors.New("the Flux handle is closed")
)

// Error is what Flux answered instead of what was asked for.
type Error struct {
	// Call is the service's method that was called, e.g. "job-manager.raise".
	Call string
	// Errno is Flux's error number. ENOSYS means that the service is not loaded.
	Errno syscall.Errno
	// Text is Flux's own explanation, or what the number stands for.
	Text string
}

func (e *Error) Error() string {
	if e.Text == "" {
		return e.Call + ": " + e.Errno.Error()
	}
	return e.Call + ": " + e.Text
}

// Unwrap makes errors.Is find the error number.
func (e *Error) Unwrap() error { return e.Errno }
