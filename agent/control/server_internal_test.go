package control

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// full is a listener of a process that has no file descriptors left, for some calls.
type full struct {
	net.Listener
	calls int
}

func (l *full) Accept() (net.Conn, error) {
	if l.calls--; l.calls < 0 {
		return nil, net.ErrClosed
	}
	return nil, unix.EMFILE
}

func (l *full) Close() error { return nil }

func TestAListenerThatFailsIsNotAskedWithoutAPause(t *testing.T) {
	began := time.Now()
	err := Serve(t.Context(), &full{calls: 2}, nil, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, net.ErrClosed)
	assert.GreaterOrEqual(t, time.Since(began), 2*acceptRetry)
}
