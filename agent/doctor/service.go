package doctor

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi"
)

// askTime is the only thing that a doctor's SSH service answers: the node's time, in
// nanoseconds since 1970.
const askTime = "time@gangline.dev"

// handshakeTimeout bounds one client.
const handshakeTimeout = 20 * time.Second

// NewKey makes a key that lives in memory only.
func NewKey() (ssh.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making an SSH key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, fmt.Errorf("making an SSH key: %w", err)
	}
	return signer, nil
}

// service is an SSH service with a gang's algorithms, which runs nothing.
type service struct {
	config *ssh.ServerConfig

	mu      sync.Mutex
	allowed [][]byte // public keys in wire format
}

func newService(host ssh.Signer) *service {
	s := &service{}
	s.config = &ssh.ServerConfig{
		Config: mpi.SSHAlgorithms(), ServerVersion: "SSH-2.0-Gangline",
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, k := range s.allowed {
				if bytes.Equal(k, key.Marshal()) {
					return nil, nil
				}
			}
			return nil, errors.New("the key is not one of this job's")
		},
	}
	s.config.AddHostKey(host)
	return s
}

// admit lets the holder of a key in (an authorized_keys line).
func (s *service) admit(line []byte) error {
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return fmt.Errorf("reading a peer's SSH key: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = append(s.allowed, key.Marshal())
	return nil
}

// serve answers until the listener is closed.
func (s *service) serve(l net.Listener) {
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return // it is closed, as there is no other end of it
		}
		clients.Go(func() { s.answer(conn) })
	}
}

func (s *service) answer(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return
	}
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return // a stranger, or a port scanner
	}
	go func() {
		for c := range channels {
			_ = c.Reject(ssh.Prohibited, "this service tells the time only")
		}
	}()
	for r := range requests {
		now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
		if err := r.Reply(r.Type == askTime, now); err != nil {
			return
		}
	}
}

// Clock is what was learnt of another machine's clock: how far it is ahead of this
// one's, give or take Error.
type Clock struct {
	Ahead time.Duration `json:"ahead"`
	Error time.Duration `json:"error"`
}

// Ask shakes hands with a doctor on a connection, which it closes, and learns the time
// there. host is the doctor's public key (an authorized_keys line).
func Ask(ctx context.Context, conn net.Conn, host []byte, client ssh.Signer) (Clock, error) {
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	key, _, _, _, err := ssh.ParseAuthorizedKey(host)
	if err != nil {
		return Clock{}, fmt.Errorf("reading the doctor's SSH key: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })() //nolint:errcheck // it ends what waits
	peer, channels, requests, err := ssh.NewClientConn(conn, conn.RemoteAddr().String(), &ssh.ClientConfig{
		Config: mpi.SSHAlgorithms(), User: "gangline", Auth: []ssh.AuthMethod{ssh.PublicKeys(client)},
		HostKeyCallback: ssh.FixedHostKey(key), HostKeyAlgorithms: []string{key.Type()}, Timeout: handshakeTimeout,
	})
	if err != nil {
		return Clock{}, fmt.Errorf("speaking SSH to %s: %w", conn.RemoteAddr(), err)
	}
	go ssh.DiscardRequests(requests)
	go func() {
		for c := range channels {
			_ = c.Reject(ssh.Prohibited, "")
		}
	}()
	var best Clock
	const tries = 3 // the quickest answer says most
	for i := range tries {
		before := time.Now()
		ok, answer, err := peer.SendRequest(askTime, true, nil)
		took := time.Since(before)
		if err != nil || !ok || len(answer) != 8 {
			return Clock{}, fmt.Errorf("asking %s for its time: no answer (%v)", conn.RemoteAddr(), err)
		}
		there := time.Unix(0, int64(binary.BigEndian.Uint64(answer))) //nolint:gosec // it was one
		c := Clock{Ahead: there.Sub(before.Add(took / 2)), Error: took / 2}
		if i == 0 || c.Error < best.Error {
			best = c
		}
	}
	return best, nil
}
