package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forwardPort makes the API server, which listens on the loopback interface only, reachable at one more address.
//
// An API server can listen on one address or on all. "All" would open a server with well-known weaknesses (it is for
// development) to the network the machine is in, so it stays on loopback and this passes chosen addresses on.
func forwardPort(ctx context.Context, ip net.IP, port int) error {
	address := net.JoinHostPort(ip.String(), strconv.Itoa(port))
	target := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	config := net.ListenConfig{Control: allowMissingAddress}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				// Out of file descriptors, most likely: let some connections end first.
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
				continue
			}
			go forwardConnection(ctx, client, target)
		}
	}()
	return nil
}

// allowMissingAddress lets the listener be made before the address exists, for example before the network between
// two namespaces is set up.
func allowMissingAddress(network, _ string, conn syscall.RawConn) error {
	var setErr error
	err := conn.Control(func(fd uintptr) {
		if network == "tcp6" {
			setErr = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
			return
		}
		setErr = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
	})
	return errors.Join(err, setErr)
}

// forwardConnection copies both ways until both sides have said their last word or the context ends. A watch can be
// idle for long, so there is no time limit.
func forwardConnection(ctx context.Context, client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer stop()

	done := make(chan struct{})
	go func() {
		defer close(done)
		copyHalf(server, client)
	}()
	copyHalf(client, server)
	<-done
}

func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
