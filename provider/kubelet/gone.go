package kubelet

import (
	"bufio"
	"context"
	"net"
	"net/http"

	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// untilGone makes a request's context end when a client has said farewell that came by a
// WebSocket. The library tells so only of others, and what is quiet would stay for ever: a
// shell on a terminal does not see its input end. (A connection that breaks ends the context
// by itself.)
//
// A client with input for a pipe may say farewell as soon as it has said all: that must
// arrive, and its end tells the command.
func untilGone(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, context.CancelFunc) {
	ctx, gone := context.WithCancel(r.Context())
	query := r.URL.Query()
	if wsstream.IsWebSocketRequest(r) && (query.Get("input") != "1" || query.Get("tty") == "1") {
		w = hijacked{w, gone}
	}
	return w, r.WithContext(ctx), gone
}

// hijacked tells when the connection is closed that is taken from it. The library reads all
// the time, and closes it at its end.
type hijacked struct {
	http.ResponseWriter
	closed func()
}

var _ http.Hijacker = hijacked{}

// Hijack implements http.Hijacker.
func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the library's own
	}
	return closing{conn, h.closed}, buffered, nil
}

type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error {
	defer c.closed()
	return c.Conn.Close() //nolint:wrapcheck // a connection's own error
}
