package control_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/control"
)

// handler is a Handler that a function is.
type handler func(context.Context, control.Request, control.Caller) (int, error)

func (h handler) Serve(ctx context.Context, r control.Request, c control.Caller) (int, error) {
	return h(ctx, r, c)
}

// serve serves a handler until the test ends, and returns the socket.
func serve(t *testing.T, h handler) string {
	t.Helper()
	name := control.Name(uuid.NewString(), 3)
	l, err := control.Listen(name)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() { assert.NoError(t, control.Serve(ctx, l, h, slog.New(slog.DiscardHandler))) })
	t.Cleanup(func() { cancel(); served.Wait() })
	return name
}

func request() control.Request { return control.Request{Rank: &control.Rank{Number: 7}} }

func TestFilesSignalsAndWordsGoAcross(t *testing.T) {
	socket := serve(t, func(_ context.Context, r control.Request, c control.Caller) (int, error) {
		c.Say("hello")
		line, err := bufio.NewReader(c.Files[0]).ReadString('\n')
		if err != nil {
			return 0, err
		}
		_, err = io.WriteString(c.Files[1], line+<-c.Signals)
		return r.Rank.Number, err
	})
	inR, inW, err := os.Pipe()
	require.NoError(t, err)
	outR, outW, err := os.Pipe()
	require.NoError(t, err)
	_, err = io.WriteString(inW, "to and fro\n")
	require.NoError(t, err)
	signals := make(chan string, 1)
	signals <- "USR1"
	var said []string
	exit, err := control.Do(t.Context(), socket, control.Call{
		Request: request(), Files: []*os.File{inR, outW}, Signals: signals, Say: func(s string) { said = append(said, s) },
	})
	require.NoError(t, err)
	assert.Equal(t, 7, exit)
	assert.Equal(t, []string{"hello"}, said)
	require.NoError(t, outW.Close())
	out, err := io.ReadAll(outR)
	require.NoError(t, err, "the server has let go of the file, or it would have no end")
	assert.Equal(t, "to and fro\nUSR1", string(out))
}

func TestWhyNothingWasStarted(t *testing.T) {
	socket := serve(t, func(context.Context, control.Request, control.Caller) (int, error) {
		return 0, errors.New("the pod has ended")
	})
	_, err := control.Do(t.Context(), socket, control.Call{Request: request()})
	assert.EqualError(t, err, "the pod has ended")
}

func TestACallerThatGoesEndsItsRequest(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	socket := serve(t, func(ctx context.Context, _ control.Request, _ control.Caller) (int, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	_, err := control.Do(ctx, socket, control.Call{Request: request()})
	require.ErrorIs(t, err, context.Canceled)
	<-ended
}

func TestAnAgentThatIsNotThere(t *testing.T) {
	_, err := control.Do(t.Context(), control.Name(uuid.NewString(), 0), control.Call{Request: request()})
	assert.ErrorIs(t, err, control.ErrGone)
}

func TestASocketIsTakenOnce(t *testing.T) {
	socket := serve(t, nil)
	_, err := control.Listen(socket)
	assert.ErrorContains(t, err, "opening the agent's socket")
}

// A program of the pod's may say anything, for as long as it likes.
func TestMessagesAreBounded(t *testing.T) {
	dial := func(t *testing.T, h handler) *net.UnixConn {
		conn, err := net.Dial("unix", serve(t, h))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write([]byte{0}) // no files
		require.NoError(t, err)
		return conn.(*net.UnixConn)
	}
	endless := func(conn io.Writer) (written int, err error) {
		for chunk := bytes.Repeat([]byte("x"), 1<<20); err == nil && written < 64<<20; written += len(chunk) {
			_, err = conn.Write(chunk)
		}
		return written, err
	}
	t.Run("a request", func(t *testing.T) {
		conn := dial(t, nil)
		_, err := conn.Write([]byte(`{"rank":{"step":"`))
		require.NoError(t, err)
		_, err = endless(conn)
		assert.Error(t, err, "the agent hangs up")
	})
	t.Run("a signal", func(t *testing.T) {
		gone := make(chan struct{})
		conn := dial(t, func(ctx context.Context, _ control.Request, _ control.Caller) (int, error) {
			<-ctx.Done()
			close(gone)
			return 0, ctx.Err()
		})
		_, err := conn.Write([]byte(`{"rank":{}}{"signal":"USR1"}{"signal":"`))
		require.NoError(t, err)
		written, err := endless(conn)
		assert.Error(t, err, "the agent hangs up")
		assert.Less(t, written, 16<<20)
		require.NoError(t, conn.Close())
		<-gone
	})
}
