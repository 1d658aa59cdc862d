package handler

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/probe"
)

// dialer leaves no connection behind in TIME-WAIT for a minute, where a probe a
// second would pile them up (https://issues.k8s.io/89898). With 0 s what was sent
// last could be lost.
func dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 1}) //nolint:gosec // a file descriptor
		})
	}}
}

func (h Handler) connect(ctx context.Context, a *corev1.TCPSocketAction) (probe.Result, error) {
	port, err := number(a.Port)
	if err != nil {
		return probe.Result{}, err
	}
	conn, err := dialer().DialContext(ctx, "tcp", net.JoinHostPort(h.host(a.Host), port))
	if err != nil {
		return failure("%s", err), nil
	}
	_ = conn.Close() // it could be opened: nothing else was asked
	return probe.Result{Outcome: probe.Success}, nil
}
