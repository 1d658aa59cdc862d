package sshclient

import (
	"context"
	"time"

	"golang.org/x/crypto/ssh"
)

// Pace says how often a peer is asked whether it lives, and how long it has to
// answer.
type Pace struct {
	Every, Patience time.Duration
}

// DefaultPace finds a peer dead 45 s after its last word at the latest.
func DefaultPace() Pace {
	return Pace{Every: 15 * time.Second, Patience: 30 * time.Second}
}

// KeepAlive closes the connection as soon as the peer has ceased to answer: a
// machine that died sends no more than that. It returns when the context or the
// connection ends.
func KeepAlive(ctx context.Context, conn ssh.Conn, pace Pace) {
	ticker := time.NewTicker(pace.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		late := time.AfterFunc(pace.Patience, func() { conn.Close() })
		_, _, err := conn.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return
		}
	}
}
