package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
)

// starter starts gateways, or fails.
type starter struct {
	t *testing.T

	mu      sync.Mutex
	fail    error
	started []*process
}

func (s *starter) start(context.Context) (io.ReadWriteCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	p := start(s.t)
	s.started = append(s.started, p)
	return p, nil
}

func (s *starter) set(fail error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *starter) newest() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[len(s.started)-1]
}

func keep(t *testing.T, s *starter) *gateway.Keeper {
	t.Helper()
	k := gateway.Keep(s.start, gateway.KeepOptions{
		First: 10 * time.Millisecond, Most: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	return k
}

func TestAGatewayIsStartedAgain(t *testing.T) {
	s := &starter{t: t}
	k := keep(t, s)
	_, err := k.List(t.Context(), "/")
	require.NoError(t, err, "the first call waits for the gateway")

	s.set(errors.New("no route to host"))
	first := s.newest()
	require.NoError(t, first.cmd.Process.Kill())
	require.Eventually(t, func() bool { return k.Ready(t.Context()) != nil }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err = k.List(t.Context(), "/")
		return err != nil && errors.Is(err, site.ErrUnreachable) && assert.ObjectsAreEqual("the HPC site cannot be reached: no route to host", err.Error())
	}, patience, time.Millisecond)

	s.set(nil)
	require.Eventually(t, func() bool { return k.Ready(t.Context()) == nil }, patience, time.Millisecond)
	_, err = k.List(t.Context(), "/")
	assert.NoError(t, err)
	assert.NotSame(t, first, s.newest())
}

func TestAnIdleGatewayEndsAndComesBack(t *testing.T) {
	s := &starter{t: t}
	slept := make(chan struct{}, 10)
	k := gateway.Keep(s.start, gateway.KeepOptions{
		Idle: 400 * time.Millisecond, Slept: func() { slept <- struct{}{} }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	_, err := k.Run(t.Context(), site.Command{Argv: []string{"/bin/sleep", "1"}})
	require.NoError(t, err, "it is not idle while a call is under way")
	first := s.newest()
	<-slept
	first.waitEnded(t)
	for range 3 {
		_, err := k.List(t.Context(), "/")
		require.NoError(t, err, "a call waits for it to wake")
	}
	assert.NotSame(t, first, s.newest())
	<-slept
	assert.Empty(t, slept)
}

func TestWhatOnlyPeopleCanMendIsNotTriedAgainSoon(t *testing.T) {
	tries := make(chan time.Time, 100)
	k := gateway.Keep(func(context.Context) (io.ReadWriteCloser, error) {
		tries <- time.Now()
		return nil, fmt.Errorf("logging in: %w", &gateway.LastingError{Err: errors.New("unknown key")})
	}, gateway.KeepOptions{First: time.Millisecond, Most: time.Millisecond, Lasting: time.Second, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	first := <-tries
	assert.ErrorContains(t, k.Ready(t.Context()), "unknown key")
	assert.GreaterOrEqual(t, (<-tries).Sub(first), time.Second)
}

func TestAGatewayThatCannotBeStartedIsNoMissingFile(t *testing.T) {
	s := &starter{t: t, fail: &missingProgram{}}
	k := keep(t, s)
	_, err := k.Names(t.Context(), "/", "etc")
	assert.ErrorIs(t, err, site.ErrUnreachable)
	assert.NotErrorIs(t, err, errMissing)
	assert.ErrorContains(t, err, "the program is missing")
}

var errMissing = errors.New("the program is missing")

type missingProgram struct{}

func (*missingProgram) Error() string { return errMissing.Error() }
func (*missingProgram) Unwrap() error { return errMissing }

func TestAGatewayThatCannotBeStartedIsNotTriedForEverForNobody(t *testing.T) {
	s := &starter{t: t, fail: errors.New("no such user")}
	slept := make(chan struct{}, 10)
	k := gateway.Keep(s.start, gateway.KeepOptions{
		First: 10 * time.Millisecond, Most: 20 * time.Millisecond,
		Idle: 200 * time.Millisecond, Slept: func() { slept <- struct{}{} }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	require.ErrorIs(t, k.Ready(t.Context()), site.ErrUnreachable)
	<-slept
	s.set(nil)
	assert.NoError(t, k.Ready(t.Context()), "who calls it has it tried at once")
}
