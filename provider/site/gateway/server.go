package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// maxCalls is how many calls run at once; more wait.
const maxCalls = 64

// helloWithin is how long a client has to say what it wants, lastWord how long it has
// to take the answer when the gateway ends.
const (
	helloWithin = time.Minute
	lastWord    = time.Second
)

// errSilent ends a gateway whose client is gone although its stream has not ended.
var errSilent = errors.New("the client has been silent for too long")

// Serve serves the own user's site until the input ends, the client falls silent, or
// ctx ends. It then waits for locked commands.
func Serve(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if _, err := io.WriteString(out, "\n"+greeting+"\n"); err != nil {
		return fmt.Errorf("greeting the client: %w", err)
	}
	g := &server{
		log: log, handlers: handlers(), out: make(chan message), slots: make(chan struct{}, maxCalls),
		running: map[uint64]context.CancelFunc{}, heard: make(chan struct{}, 1), hello: make(chan hello, 1),
	}
	go g.read(ctx, in, cancel)
	written := make(chan struct{})
	go func() {
		defer close(written)
		g.write(ctx, out, cancel)
	}()
	err := g.serve(ctx, cancel)
	cancel(err)
	select { // for a last word, unless nobody takes it
	case <-written:
	case <-time.After(lastWord):
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

type server struct {
	log      *slog.Logger
	handlers map[string]handler
	out      chan message
	slots    chan struct{}
	calls    sync.WaitGroup
	heard    chan struct{} // something came from the client
	hello    chan hello

	mu      sync.Mutex
	serving context.Context //nolint:containedctx // of the calls; nil before the welcome and after the end
	local   site.Local
	running map[uint64]context.CancelFunc
}

// serve welcomes the client and returns why the gateway has to end.
func (g *server) serve(ctx context.Context, cancel context.CancelCauseFunc) error {
	var h hello
	select {
	case h = <-g.hello:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(helloWithin):
		return errSilent
	}
	go g.watch(ctx, time.Duration(h.Silence), cancel)
	var local site.Local
	if h.Lock != "" {
		lock, err := spool.Lock(ctx, h.Lock, func() {
			g.send(ctx, message{Kind: kindNotice, Value: quoted("waiting for the lock " + h.Lock + ": an earlier gateway, or an sbatch that it started, still runs")})
		})
		if err != nil {
			g.send(ctx, message{Kind: kindWelcome, Error: toWire(err)})
			return err
		}
		defer lock.Close() //nolint:errcheck // the process ends
		local.Lock = lock
	}
	g.mu.Lock()
	g.serving, g.local = ctx, local
	g.mu.Unlock()
	g.send(ctx, message{Kind: kindWelcome})
	<-ctx.Done()
	g.mu.Lock()
	g.serving = nil
	g.mu.Unlock()
	g.calls.Wait() // with the lock
	return context.Cause(ctx)
}

// watch ends the gateway when the client has been silent for too long.
func (g *server) watch(ctx context.Context, silence time.Duration, cancel context.CancelCauseFunc) {
	if silence <= 0 {
		return
	}
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		select {
		case <-g.heard:
			timer.Reset(silence)
		case <-timer.C:
			g.log.Warn("the client is silent; this gateway ends", "after", silence.String())
			cancel(errSilent)
			return
		case <-ctx.Done():
			return
		}
	}
}

// read takes the client's messages until there are no more.
func (g *server) read(ctx context.Context, in io.Reader, cancel context.CancelCauseFunc) {
	stream := &listening{in, g.heard}
	for {
		m, err := readMessage(stream)
		if err != nil {
			cancel(err)
			return
		}
		switch m.Kind {
		case kindHello:
			var h hello
			if err := json.Unmarshal(m.Value, &h); err != nil {
				cancel(fmt.Errorf("reading the client's hello: %w", err))
				return
			}
			select {
			case g.hello <- h:
			default: // it has said so before
			}
		case kindPing:
			go g.send(ctx, message{Kind: kindPong})
		case kindCall:
			g.call(m)
		case kindCancel:
			g.mu.Lock()
			if cancelCall := g.running[m.ID]; cancelCall != nil {
				cancelCall()
			}
			g.mu.Unlock()
		}
	}
}

func (g *server) call(m message) {
	handle := g.handlers[m.Method]
	if handle == nil {
		g.begin(m, func(context.Context) message {
			return message{Kind: kindAnswer, ID: m.ID, Error: toWire(fmt.Errorf("this gateway has no call %q", m.Method))}
		})
		return
	}
	g.begin(m, func(ctx context.Context) message {
		select {
		case g.slots <- struct{}{}:
			defer func() { <-g.slots }()
		case <-ctx.Done():
			return message{Kind: kindAnswer, ID: m.ID, Error: toWire(ctx.Err())}
		}
		return handle(ctx, g.local, m)
	})
}

// begin runs what gives an answer, and sends it. A call must not begin before the
// welcome, nor when the gateway has begun to end.
func (g *server) begin(m message, answer func(context.Context) message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.serving == nil {
		g.log.Error("a call came before the welcome or after the end", "method", m.Method)
		return
	}
	all := g.serving
	ctx, cancel := context.WithCancel(all)
	g.running[m.ID] = cancel
	g.calls.Go(func() {
		a := answer(ctx)
		cancel()
		g.mu.Lock()
		delete(g.running, m.ID)
		g.mu.Unlock()
		g.send(all, a)
	})
}

// send hands a message to the writer, unless the gateway ends.
func (g *server) send(ctx context.Context, m message) {
	select {
	case g.out <- m:
	case <-ctx.Done():
	}
}

func (g *server) write(ctx context.Context, out io.Writer, cancel context.CancelCauseFunc) {
	for {
		select {
		case m := <-g.out:
			err := m.write(out)
			if errors.Is(err, site.ErrTooLarge) { // nothing of it was written
				err = message{Kind: m.Kind, ID: m.ID, Error: toWire(err)}.write(out)
			}
			if err != nil {
				cancel(fmt.Errorf("answering the client: %w", err))
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// listening tells of whatever is read.
type listening struct {
	io.Reader
	heard chan<- struct{}
}

func (l *listening) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		select {
		case l.heard <- struct{}{}:
		default:
		}
	}
	return n, err
}

func quoted(s string) json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil { // of a string: never
		return nil
	}
	return data
}
