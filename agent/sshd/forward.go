package sshd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi/sshclient"
)

// forward serves a channel of the type "direct-tcpip": a port of the node's
// loopback, where the slot's pod listens too, or of another host of the gang.
// Anywhere else it refuses to go: the service is not a way around the site's
// firewalls.
func (s *Server) forward(ctx context.Context, logger *slog.Logger, opened ssh.NewChannel) {
	var target sshclient.DirectTCPIP
	if err := ssh.Unmarshal(opened.ExtraData(), &target); err != nil {
		_ = opened.Reject(ssh.ConnectionFailed, "the request was not understood")
		return
	}
	hosts := loopback(target.Host)
	if hosts == nil && s.peers != nil {
		hosts = s.peers(target.Host)
	}
	if len(hosts) == 0 {
		logger.Warn("forwarding out of the gang was refused", "host", target.Host, "port", target.Port)
		_ = opened.Reject(ssh.Prohibited, "only ports of localhost and of the gang's hosts are forwarded")
		return
	}
	conn, err := dial(ctx, hosts, target.Port)
	if err != nil {
		_ = opened.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer conn.Close()
	channel, requests, err := opened.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	go func() {
		ssh.DiscardRequests(requests) // until the client closes the channel
		conn.Close()
	}()
	var both sync.WaitGroup
	both.Go(func() { pass(conn, channel) })
	both.Go(func() { pass(channel, conn) })
	both.Wait()
}

// halfCloser is a stream whose two directions end on their own.
type halfCloser interface {
	io.Writer
	CloseWrite() error
}

// pass copies one direction and passes on its end. What is left of the other
// direction then ends by itself.
func pass(to halfCloser, from io.Reader) {
	_, _ = io.Copy(to, from)
	_ = to.CloseWrite()
}

// loopback returns the addresses that a name of the loopback stands for, or nil.
// No resolver is asked: it could answer anything.
func loopback(host string) []string {
	if host == "localhost" {
		return []string{"127.0.0.1", "::1"}
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return []string{ip.String()}
	}
	return nil
}

func dial(ctx context.Context, hosts []string, port uint32) (*net.TCPConn, error) {
	var failed []error
	for _, host := range hosts {
		addr := net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}
