package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi/sshclient"
)

// sharedPort is the subsystem by which a pod tells another one of its gang that it
// wanted the same port of their node. Its input is the pod's host name; it lasts as
// long as the pod serves.
const sharedPort = "shared-port@gangline.dev"

// announceAgain is the pause before a pod tells again, after the other has ended.
const announceAgain = time.Second

// sharing knows which pods of the gang wanted this pod's port. A client from
// outside that means one of them comes here, and nothing tells: it would start its
// ranks in the wrong pod. So it is refused.
type sharing struct {
	own   ssh.PublicKey // of the gang, whose clients know the ports apart
	self  string
	mu    sync.Mutex
	there map[string]int
}

// admit is sshd.Config's.
func (s *sharing) admit(key ssh.PublicKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.there) == 0 || s.own != nil && bytes.Equal(key.Marshal(), s.own.Marshal()) {
		return nil
	}
	others := strings.Join(slices.Sorted(maps.Keys(s.there)), ", ")
	return fmt.Errorf("%s shares its HPC node, address and port with %s, so it cannot be told which is meant: give each pod an HPC node of its own, by a request of more than half of one's CPUs", s.self, others)
}

// join notes another pod until its connection ends.
func (s *sharing) join(ctx context.Context, stdin io.Reader) (int, error) {
	name, err := bufio.NewReader(io.LimitReader(stdin, 1<<10)).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("hearing which pod shares the port: %w", err)
	}
	name = strings.TrimSpace(name)
	s.count(name, 1)
	defer s.count(name, -1)
	<-ctx.Done()
	return 0, nil
}

func (s *sharing) count(name string, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.there[name] += by; s.there[name] == 0 {
		delete(s.there, name)
	}
}

// announce tells the process that has the address, if it is of the gang, that a pod
// shares it. It returns when the context ends, or when it is another's process. An
// empty host is this one, as net.Dial has it.
func announce(ctx context.Context, address, self string, c sshclient.Credentials, logger *slog.Logger) {
	for ctx.Err() == nil {
		err := announceOnce(ctx, address, self, c)
		var unreachable net.Error
		if err != nil && !errors.As(err, &unreachable) && !errors.Is(err, io.EOF) && !errors.Is(err, sshclient.ErrInterrupted) {
			logger.Warn("the port is that of a process that does not belong to this gang", "address", address, "error", err)
			return
		}
		select {
		case <-time.After(announceAgain):
		case <-ctx.Done():
		}
	}
}

func announceOnce(ctx context.Context, address, self string, c sshclient.Credentials) error {
	client, err := sshclient.Dial(ctx, address, c)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // it has served its purpose
	_, err = client.Run(ctx, sshclient.Session{Request: "subsystem", Argument: sharedPort, Stdin: strings.NewReader(self + "\n")})
	return err
}
