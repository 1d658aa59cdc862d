package kubelet

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// quiet is a command that writes nothing. It tells what its input was, if that is a pipe, and
// that it was ended by somebody else than end.
type quiet struct {
	began chan struct{}
	input chan string
	end   chan struct{}
	ended chan bool
}

func (q quiet) Run(ctx context.Context, c sshd.Command) (int, error) {
	close(q.began)
	if c.PTY == nil {
		text, _ := io.ReadAll(c.Stdin)
		q.input <- string(text)
	}
	select {
	case <-ctx.Done():
		q.ended <- true
	case <-q.end:
		q.ended <- false
	}
	return 0, nil
}

// comeByWebSocket begins an exec, and returns when the command has begun.
func comeByWebSocket(t *testing.T, query string) (quiet, net.Conn) {
	t.Helper()
	keys, q := sshdtest.Keys(t), quiet{make(chan struct{}), make(chan string, 1), make(chan struct{}), make(chan bool, 1)}
	address := sshdtest.Start(t, keys, q)
	server := serveFar(t, &Place{Site: site.Local{}, Credentials: sshdtest.Credentials(keys)},
		spool.Agent{Node: "n1", Address: address.IP.String(), SSHPort: address.Port})
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET /exec/ns/pi/main?command=quiet&output=1"+query+" HTTP/1.1\r\nHost: node\r\nOrigin: http://node\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+
		"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	await(t, q.began)
	return q, conn
}

func await[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		require.Fail(t, "nothing happens")
	}
	return v
}

// farewell is the message by which a client says that it goes, masked by zeros.
const farewell = "\x88\x82\x00\x00\x00\x00\x03\xe8"

func TestAQuietCommandEndsWhenItsClientByAWebSocketHasGone(t *testing.T) {
	for sentence, query := range map[string]string{"it had no input": "", "it had a terminal": "&input=1&tty=1"} {
		t.Run(sentence, func(t *testing.T) {
			q, conn := comeByWebSocket(t, query)
			_, err := io.WriteString(conn, farewell)
			require.NoError(t, err)
			assert.True(t, await(t, q.ended))
		})
		t.Run(sentence+", and its client says no farewell", func(t *testing.T) {
			q, conn := comeByWebSocket(t, query)
			require.NoError(t, conn.Close())
			assert.True(t, await(t, q.ended))
		})
	}
}

func TestWhatAClientHasSaidBeforeItWentArrives(t *testing.T) {
	q, conn := comeByWebSocket(t, "&input=1")
	_, err := io.WriteString(conn, "\x82\x86\x00\x00\x00\x00\x00hello"+farewell) // of the channel 0
	require.NoError(t, err)
	assert.Equal(t, "hello", await(t, q.input))
	close(q.end)
	assert.False(t, await(t, q.ended), "it is for the command to end")
}
