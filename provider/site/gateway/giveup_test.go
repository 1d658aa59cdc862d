package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
)

// stopped is a client whose gateway has stopped, as if its filesystem hung.
func stopped(t *testing.T, o gateway.Options) (*gateway.Client, *process) {
	p := start(t)
	c := connect(t, p, o)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	return c, p
}

// untilGivenUp makes a call until one is given up: a process stops at some moment.
func untilGivenUp(t *testing.T, call func(context.Context) error) {
	t.Helper()
	var err error
	for err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err = call(ctx)
		cancel()
	}
	assert.ErrorIs(t, err, site.ErrUnreachable, "it may be done yet")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAQuestionThatIsGivenUpIsForgotten(t *testing.T) {
	c, p := stopped(t, gateway.Options{})
	untilGivenUp(t, func(ctx context.Context) error {
		_, err := c.List(ctx, "/")
		return err
	})
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	_, err := c.List(t.Context(), "/")
	assert.NoError(t, err)
}

func TestNothingIsAskedAfterAWriteThatWasGivenUpBeforeThatIsOver(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	path := filepath.Join(t.TempDir(), "desired.json")
	c, p := stopped(t, gateway.Options{Lock: lock})
	const ownerOnly = 0o600
	untilGivenUp(t, func(ctx context.Context) error { return c.Write(ctx, path, []byte("run"), ownerOnly) })
	<-c.Done()
	_, err := c.List(t.Context(), "/")
	assert.ErrorIs(t, err, site.ErrUnreachable)

	notices, next := make(chan string, 1), make(chan *gateway.Client, 1)
	go func() {
		c, err := gateway.New(t.Context(), start(t), gateway.Options{Lock: lock, Notice: func(text string) { notices <- text }})
		assert.NoError(t, err)
		next <- c
	}()
	assert.Contains(t, <-notices, lock)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	again := <-next
	t.Cleanup(func() { _ = again.Close() })
	require.NoError(t, again.Write(t.Context(), path, []byte("stop"), ownerOnly))
	p.waitEnded(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "stop", string(data))
}
