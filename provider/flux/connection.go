package flux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gangline/gangline/flux"
)

// connection is a way to Flux that is opened anew after it was lost.
type connection struct {
	uri, library string
	timeout      time.Duration

	turn   chan struct{} // who has it in there has what follows
	handle *flux.Handle  // nil unless it was opened
	closed bool
}

func newConnection(cfg Config) *connection {
	return &connection{uri: cfg.URI, library: cfg.Library, timeout: cfg.Timeout, turn: make(chan struct{}, 1)}
}

func (c *connection) close() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	if c.handle != nil {
		c.handle.Close()
	}
}

// open returns a handle that was not lost yet, as far as is known.
func (c *connection) open(ctx context.Context) (*flux.Handle, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another call to open Flux: %w", context.Cause(ctx))
	}
	defer func() { <-c.turn }()
	if c.closed {
		return nil, flux.ErrClosed
	}
	if c.handle != nil && c.handle.Err() == nil {
		return c.handle, nil
	}
	if c.handle != nil {
		c.handle.Close()
		c.handle = nil
	}
	h, err := flux.Open(ctx, c.uri, flux.Options{Library: c.library})
	if err != nil {
		return nil, err
	}
	c.handle = h
	return h, nil
}

// do calls Flux once.
func (c *connection) do(ctx context.Context, f func(context.Context, *flux.Handle) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer of Flux's for %s: %w", c.timeout, context.DeadlineExceeded))
	defer cancel()
	h, err := c.open(ctx)
	if err != nil {
		return err
	}
	return f(ctx, h)
}

// ask calls Flux, and again on a new connection where the old one turns out to be broken:
// it is for what may be asked twice.
func (c *connection) ask(ctx context.Context, f func(context.Context, *flux.Handle) error) error {
	err := c.do(ctx, f)
	if errors.Is(err, flux.ErrLost) {
		return c.do(ctx, f)
	}
	return err
}
