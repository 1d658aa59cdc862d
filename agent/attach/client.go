package attach

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/gangline/gangline/agent/sshd"
)

// ErrEnded says that a process has ended.
var ErrEnded = errors.New("the process has ended")

// Client is who attaches. Any stream may be nil. A read of Stdin may outlive Attach.
type Client struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize carries sizes for the terminal. It may be nil or closed.
	Resize <-chan sshd.Size
}

// joined is a client that gets the output.
type joined struct {
	backlogs [streams]*backlog // nil for a stream that it does not want
}

func (j *joined) end() {
	for _, b := range j.backlogs {
		if b != nil {
			b.end()
		}
	}
}

// Attach joins a client: it gets the output from now on, and its input goes to the
// process, if that has one. It returns nil when the process has ended or the client
// has ended its input, and the client has got everything; the context's error when
// that ends first. With StdinOnce the end of the client's input is the process's as
// well, and the client gets the rest of the output.
func (c *Console) Attach(ctx context.Context, client Client) error {
	j, err := c.join(client)
	if err != nil {
		return err
	}
	defer c.leave(j)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	once := c.options.StdinOnce && !c.options.TTY
	if client.Stdin != nil && c.stdin != nil {
		if once {
			defer c.closeStdin()
		}
		go func() {
			// An error says that the process has closed its input, or that
			// another client has: that is no reason to leave.
			_, err := io.Copy(c.stdin, client.Stdin)
			switch {
			case err != nil:
			case once:
				c.closeStdin()
			default:
				j.end()
			}
		}()
	}
	if c.terminal != nil && client.Resize != nil {
		go c.resize(ctx, client.Resize)
	}
	return j.copyTo(ctx, [streams]io.Writer{client.Stdout, client.Stderr})
}

// join begins to collect output for a client.
func (c *Console) join(client Client) (*joined, error) {
	j := &joined{}
	for i, w := range [streams]io.Writer{client.Stdout, client.Stderr} {
		if w == nil && i != stdout {
			continue // the first one tells of the end, so it is always there
		}
		b, err := newBacklog(c.options.Dir, maxBehind)
		if err != nil {
			j.close()
			return nil, err
		}
		j.backlogs[i] = b
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		j.close()
		return nil, ErrEnded
	}
	c.clients[j] = true
	return j, nil
}

func (c *Console) leave(j *joined) {
	c.mu.Lock()
	delete(c.clients, j)
	c.mu.Unlock()
	j.close()
}

// copyTo writes all streams until they end, or one fails: a client that does not
// take one is gone.
func (j *joined) copyTo(ctx context.Context, to [streams]io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var copying sync.WaitGroup
	for i, b := range j.backlogs {
		if b == nil {
			continue
		}
		w := to[i]
		if w == nil {
			w = io.Discard
		}
		copying.Go(func() {
			if err := b.copyTo(ctx, w); err != nil {
				cancel(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { copying.Wait(); close(done) }()
	select {
	case <-done:
		return context.Cause(ctx)
	case <-ctx.Done(): // a write may hang until the client is closed
		return context.Cause(ctx)
	}
}

func (j *joined) close() {
	for _, b := range j.backlogs {
		if b != nil {
			b.close()
		}
	}
}

func (c *Console) resize(ctx context.Context, sizes <-chan sshd.Size) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = c.terminal.Resize(size.Columns, size.Rows) // it fails at the process's end only
		}
	}
}
