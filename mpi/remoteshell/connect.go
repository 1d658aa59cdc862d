package remoteshell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gangline/gangline/mpi/sshclient"
)

const (
	// tryTimeout bounds one try: an address that swallows packets may be an old
	// one.
	tryTimeout = 10 * time.Second
	// The waits between tries.
	firstPause = 50 * time.Millisecond
	longPause  = time.Second
	// patience is how long we wait before we say so.
	patience = 5 * time.Second
)

// connect connects to the host. It tries again while the host does not listen
// yet, and reads the table anew for that: an agent that was restarted has another
// port.
func (s shell) connect(ctx context.Context) (*sshclient.Client, error) {
	timeout := s.timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tell := time.AfterFunc(patience, func() { s.say("ssh: still waiting for %s to listen", s.host) })
	defer tell.Stop()
	pause, peers := firstPause, s.peers
	for {
		client, err := s.try(bounded, peers)
		if err == nil || ctx.Err() != nil || !transient(err) {
			return client, err
		}
		if s.verbose {
			s.say("ssh: %v", err)
		}
		select {
		case <-time.After(pause):
		case <-bounded.Done():
			return nil, fmt.Errorf("no connection within %s: %w", timeout, err)
		}
		pause = min(2*pause, longPause)
		if peers, err = readPeers(s.dir); err != nil {
			return nil, err
		}
	}
}

func (s shell) try(ctx context.Context, peers Peers) (*sshclient.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	peer, ok := peers.find(s.host)
	if !ok {
		return nil, errors.New("the host has left the gang")
	}
	key, err := os.ReadFile(filepath.Join(s.dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the gang's SSH key: %w", err)
	}
	addr := net.JoinHostPort(peer.Address, strconv.Itoa(peer.Port))
	return sshclient.Dial(ctx, addr, sshclient.Credentials{HostPublicKey: []byte(peers.HostKey), ClientKey: key})
}

// transient tells whether another try may succeed: nobody listens, or whoever did
// has hung up. A wrong key stays wrong.
func transient(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
