package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/gangline/gangline/agent/attach"
	"github.com/gangline/gangline/agent/sshd"
)

// attach joins a session to the standard streams of a container that runs.
func (s *slot) attach(ctx context.Context, c sshd.Command) (int, error) {
	streams, err := ask(ctx, s, func() *attach.Console { return s.streamsOf(c.Container) })
	if err != nil {
		return 0, err
	}
	if streams == nil {
		return 0, fmt.Errorf("container %q does not run", c.Container)
	}
	client := attach.Client{Stdout: c.Stdout, Stderr: c.Stderr, Resize: c.Resize}
	if c.Attach.Stdin {
		client.Stdin = c.Stdin
	}
	err = streams.Attach(ctx, client)
	if errors.Is(err, attach.ErrEnded) {
		err = nil // it just has, and would have been left now as well
	}
	return 0, err
}

// streamsOf returns those of a container's current run, nil if there is none.
func (s *slot) streamsOf(container string) *attach.Console {
	if s.pod == nil {
		return nil
	}
	if e := s.pod.current[container]; e != nil {
		return e.streams
	}
	return nil
}
