package sshclient_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/mpi/sshclient"
)

type runnerFunc func(context.Context, sshd.Command) (int, error)

func (f runnerFunc) Run(ctx context.Context, c sshd.Command) (int, error) { return f(ctx, c) }

func connect(t *testing.T, r sshd.Runner) *sshclient.Client {
	t.Helper()
	keys := sshdtest.Keys(t)
	addr := sshdtest.Start(t, keys, r)
	client, err := sshclient.Dial(t.Context(), addr.String(), sshdtest.Credentials(keys))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func TestRunSendsWhatTheSessionHolds(t *testing.T) {
	var got sshd.Command
	client := connect(t, runnerFunc(func(_ context.Context, c sshd.Command) (int, error) {
		got = c
		name := <-c.Signals
		_, err := io.WriteString(c.Stdout, name)
		return 5, err
	}))
	signals := make(chan string, 1)
	signals <- "USR1"
	close(signals)
	var stdout bytes.Buffer
	status, err := client.Run(t.Context(), sshclient.Session{
		Request: "exec", Argument: "a  b", Env: []string{"A=b=c", "LD_PRELOAD=x"},
		PTY:    &sshclient.PTY{Term: "vt100", Size: sshclient.Size{Columns: 80, Rows: 24}},
		Stdout: &stdout, Signals: signals,
	})
	require.NoError(t, err)
	assert.Equal(t, 5, status)
	assert.Equal(t, "USR1", stdout.String())
	assert.Equal(t, "a  b", got.Line)
	assert.Equal(t, []string{"A=b=c"}, got.Env)
	assert.Equal(t, &sshclient.PTY{Term: "vt100", Size: sshclient.Size{Columns: 80, Rows: 24}}, got.PTY)
}

func TestRunTellsARefusalFromAnInterruption(t *testing.T) {
	client := connect(t, runnerFunc(func(ctx context.Context, c sshd.Command) (int, error) {
		_, err := io.WriteString(c.Stdout, "started")
		assert.NoError(t, err)
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	_, err := client.Run(t.Context(), sshclient.Session{Request: "subsystem", Argument: "tarot"})
	assert.ErrorContains(t, err, "refused the request subsystem tarot")

	hangUp := writerFunc(func(p []byte) (int, error) { return len(p), client.Close() })
	_, err = client.Run(t.Context(), sshclient.Session{Request: "exec", Argument: "sleep", Stdout: hangUp})
	assert.ErrorIs(t, err, sshclient.ErrInterrupted)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestNothingWorksOnAClosedClient(t *testing.T) {
	client := connect(t, sshdtest.Shell{})
	require.NoError(t, client.Close())
	_, err := client.Run(t.Context(), sshclient.Session{Request: "shell"})
	assert.ErrorContains(t, err, "opening an SSH session")
	_, err = client.Forward(t.Context(), 1)
	assert.ErrorContains(t, err, "forwarding port 1")
}
