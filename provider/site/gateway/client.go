package gateway

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/site"
)

// Pace says how often the client tells the gateway that it lives, and after how long
// a silence either side holds the other for dead.
type Pace struct {
	Every, Patience time.Duration
}

// DefaultPace ends a gateway 45 s after its client's last word.
func DefaultPace() Pace { return Pace{Every: 10 * time.Second, Patience: 45 * time.Second} }

// Options are what a client wants of its gateway.
type Options struct {
	// Lock is the file that the gateway locks before it serves; empty for none. It is
	// best on a filesystem of the gateway's own machine (see spool.Lock).
	Lock string
	// Pace is DefaultPace if zero.
	Pace Pace
	// Dialer reaches the HPC nodes; nil for this machine's network.
	Dialer site.Dialer
	// Notice is told what the gateway waits for; nil for nobody.
	Notice func(text string)
}

// causer is a stream that knows why it has ended: a process that has died says so on
// its standard error and by its exit status.
type causer interface {
	// Cause is called once the stream has ended with an error.
	Cause(err error) error
}

// Client is the site that a gateway serves.
type Client struct {
	remote
	conn    io.ReadWriteCloser
	options Options
	out     chan message
	done    chan struct{} // closed when the gateway is lost

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan message // nil when the gateway is lost
	err     error                   // why
}

var _ site.Site = (*Client)(nil)

// New speaks to a gateway, and returns when it has its lock. The connection is the
// client's from here on, also after an error. ctx bounds only New.
func New(ctx context.Context, conn io.ReadWriteCloser, o Options) (*Client, error) {
	o.Pace = cmp.Or(o.Pace, DefaultPace())
	c := &Client{
		conn: conn, options: o, out: make(chan message), done: make(chan struct{}),
		waiting: map[uint64]chan message{},
	}
	c.remote = newRemote(c, o.Dialer)
	welcome := make(chan message, 1)
	heard := make(chan struct{}, 1)
	go c.read(&listening{conn, heard}, welcome)
	go c.write()
	go c.live(heard)
	value, err := json.Marshal(hello{Lock: o.Lock, Silence: int64(o.Pace.Patience)})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go c.send(context.WithoutCancel(ctx), message{Kind: kindHello, Value: value})
	select {
	case m := <-welcome:
		if err := m.Error.err(); err != nil {
			c.end(err)
			return nil, fmt.Errorf("the gateway cannot serve: %w", err)
		}
		return c, nil
	case <-c.done:
		return nil, c.lost()
	case <-ctx.Done():
		c.end(context.Cause(ctx))
		return nil, fmt.Errorf("waiting for the gateway: %w", context.Cause(ctx))
	}
}

// Close ends the gateway.
func (c *Client) Close() error {
	c.end(net.ErrClosed)
	return nil
}

// Done is closed when the gateway is lost; Err says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is nil while the gateway lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// lost is what calls return when there is no gateway.
func (c *Client) lost() error { return unreachable(c.Err()) }

// end gives the gateway up. Calls in flight end at once, even where the stream takes
// its time to close.
func (c *Client) end(err error) {
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return
	}
	c.waiting, c.err = nil, err
	close(c.done)
	c.mu.Unlock()
	_ = c.conn.Close() // it has ended, or ends by this
}

// broken is end for a stream that has ended by itself.
func (c *Client) broken(err error) {
	if known, ok := c.conn.(causer); ok {
		err = known.Cause(err)
	}
	c.end(err)
}

// read takes the gateway's messages until there are no more.
func (c *Client) read(stream io.Reader, welcome chan<- message) {
	in := bufio.NewReader(stream)
	if noise, err := readGreeting(in); err != nil {
		if noise = strings.TrimSpace(noise); noise != "" {
			err = fmt.Errorf("%w; in place of the gateway came: %s", err, strings.ToValidUTF8(noise, "\uFFFD"))
		}
		c.broken(err)
		return
	}
	for {
		m, err := readMessage(in)
		if err != nil {
			c.broken(err)
			return
		}
		switch m.Kind {
		case kindWelcome:
			select {
			case welcome <- m:
			default: // it has come before
			}
		case kindNotice:
			var text string
			if json.Unmarshal(m.Value, &text) == nil && c.options.Notice != nil {
				c.options.Notice(text)
			}
		case kindAnswer:
			c.deliver(m)
		}
	}
}

// deliver gives an answer to the call that waits for it, if it still does.
func (c *Client) deliver(m message) {
	c.mu.Lock()
	answer := c.waiting[m.ID]
	delete(c.waiting, m.ID)
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// live tells the gateway that the client lives, and gives up one that is silent.
func (c *Client) live(heard <-chan struct{}) {
	ping := time.NewTicker(c.options.Pace.Every)
	defer ping.Stop()
	silent := time.NewTimer(c.options.Pace.Patience)
	defer silent.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-heard:
			silent.Reset(c.options.Pace.Patience)
		case <-silent.C:
			c.end(fmt.Errorf("the gateway has been silent for %s", c.options.Pace.Patience))
			return
		case <-ping.C:
			select {
			case c.out <- message{Kind: kindPing}:
			default: // it is being sent something
			}
		}
	}
}

func (c *Client) write() {
	for {
		select {
		case m := <-c.out:
			err := m.write(c.conn)
			if errors.Is(err, site.ErrTooLarge) { // nothing of it was written
				c.deliver(message{ID: m.ID, Error: toWire(err)})
				continue
			}
			if err != nil {
				// What can still be read tells more.
				time.AfterFunc(lastWord, func() { c.broken(err) })
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *Client) send(ctx context.Context, m message) error {
	select {
	case c.out <- m:
		return nil
	case <-c.done:
		return c.lost()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call asks, and waits for the answer. Where ctx ends first nothing was learnt, as by a way
// that is cut: the gateway may do what it was asked for whenever the filesystem lets it.
func (c *Client) call(ctx context.Context, m message) (message, error) {
	if ctx.Err() != nil {
		return message{}, fmt.Errorf("asking the gateway: %w", context.Cause(ctx))
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	if c.waiting == nil {
		c.mu.Unlock()
		return message{}, c.lost()
	}
	c.next++
	m.ID = c.next
	c.waiting[m.ID] = answer
	c.mu.Unlock()
	if err := c.send(ctx, m); err != nil {
		c.forget(m.ID)
		return message{}, fmt.Errorf("asking the gateway: %w", err)
	}
	select {
	case a := <-answer:
		return a, nil
	case <-c.done:
		return message{}, c.lost()
	case <-ctx.Done():
		c.giveUp(ctx, m)
		return message{}, fmt.Errorf("%w: a call was given up before its answer came: %w", site.ErrUnreachable, context.Cause(ctx))
	}
}

// giveUp lets a call go that nobody waits for any more. What it may still change must not
// come after what is asked for next: only another gateway, which gets the lock when this one
// has done all that it was asked for, can tell.
func (c *Client) giveUp(ctx context.Context, m message) {
	c.forget(m.ID)
	if m.changes {
		c.end(fmt.Errorf("the spool was not written in time, and its filesystem has to answer first: %w", context.Cause(ctx)))
		return
	}
	go func() { _ = c.send(context.WithoutCancel(ctx), message{Kind: kindCancel, ID: m.ID}) }()
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}
