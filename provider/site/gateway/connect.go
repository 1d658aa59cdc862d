package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
)

// Connect joins in and out to a TCP connection, for a client that may not reach the
// address through the login node's sshd. It greets the client once it has connected,
// and returns when the other side has said all.
func Connect(ctx context.Context, address string, in io.Reader, out io.Writer) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close() //nolint:errcheck // all is said
	hangUp := context.AfterFunc(ctx, func() { conn.Close() })
	defer hangUp()
	if _, err := io.WriteString(out, "\n"+greeting+"\n"); err != nil {
		return fmt.Errorf("greeting the client: %w", err)
	}
	go func() {
		_, _ = io.Copy(conn, in)
		// The end of the client's direction alone: there may be an answer to come.
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(out, conn)
	if err != nil {
		return fmt.Errorf("passing on what comes: %w", err)
	}
	return nil
}

// Greeted skips what a login shell prints before the greeting of what was started. The
// stream is to be read from what it returns.
func Greeted(stream io.Reader) (io.Reader, error) {
	in := bufio.NewReader(stream)
	noise, err := readGreeting(in)
	if err != nil {
		return nil, fmt.Errorf("%w; what came was: %q", err, noise)
	}
	return in, nil
}
