package sshclient

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

// Forward connects to a TCP port of the other side's loopback. The stream also
// has CloseWrite, which sends the end of input alone. Its end is Close's: the
// context bounds the opening only.
func (c *Client) Forward(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	target := DirectTCPIP{Host: "localhost", Port: uint32(port), OriginHost: "localhost"}
	channel, requests, err := c.open(ctx, "direct-tcpip", ssh.Marshal(target))
	if err != nil {
		return nil, fmt.Errorf("forwarding port %d over SSH: %w", port, err)
	}
	go ssh.DiscardRequests(requests)
	return channel, nil
}
