package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Start starts a gateway and returns its streams. Closing them ends it. ctx bounds
// only the start.
type Start func(ctx context.Context) (io.ReadWriteCloser, error)

// KeepOptions say how a gateway is kept.
type KeepOptions struct {
	Options
	// First is how long after its end a gateway is started again, and Most what that
	// grows to, by doubling, while it fails; 1 s and 30 s if zero. Each wait is longer or
	// shorter by up to a half: many gateways may be meant for one login node.
	First, Most time.Duration
	// Lasting is how long is waited after a LastingError; 5 min if zero.
	Lasting time.Duration
	// Idle is how long a gateway is kept, or tried again, that nobody calls; 0 for ever. The
	// next call starts it again. Slept is called when it has been ended for that.
	Idle  time.Duration
	Slept func()
	// StartTimeout bounds one start, which may have to bring the agent to a login node,
	// but not the wait for the lock. 10 min if zero.
	StartTimeout time.Duration
	// Log tells of gateways that end. slog.Default if nil.
	Log *slog.Logger
}

// LastingError is why a gateway cannot be started until somebody does something about
// it. A login node shuts out those who come again and again with a key that it does
// not know.
type LastingError struct{ Err error }

func (e *LastingError) Error() string { return e.Err.Error() }
func (e *LastingError) Unwrap() error { return e.Err }

// Keeper is the site that a gateway serves, which is started again whenever it ends.
// Calls in flight then fail with site.ErrUnreachable, as do those that are made while
// there is none; those before the first attempt has ended wait for it.
type Keeper struct {
	remote
	start   Start
	options KeepOptions
	stop    context.CancelFunc
	stopped chan struct{}

	mu      sync.Mutex
	client  *Client       // nil while there is none
	err     error         // why
	settled bool          // the first attempt has ended
	tried   chan struct{} // closed when it has
	asleep  bool
	wake    chan struct{} // closed when it is to wake
	calls   int           // that are under way
	used    time.Time     // when the last began or ended
}

// Keep starts a gateway and keeps it until Close.
func Keep(start Start, o KeepOptions) *Keeper {
	o.First, o.Most = cmp.Or(o.First, time.Second), cmp.Or(o.Most, 30*time.Second)
	o.Lasting = cmp.Or(o.Lasting, 5*time.Minute)
	o.StartTimeout, o.Log = cmp.Or(o.StartTimeout, 10*time.Minute), cmp.Or(o.Log, slog.Default())
	ctx, stop := context.WithCancel(context.Background())
	k := &Keeper{
		start: start, options: o, stop: stop, stopped: make(chan struct{}), tried: make(chan struct{}),
		err: errors.New("the gateway is being started"), used: time.Now(),
	}
	k.remote = newRemote(k, o.Dialer)
	notice := o.Notice
	k.options.Notice = func(text string) {
		k.because(fmt.Errorf("the gateway is %s", text))
		o.Log.Info("a gateway is " + text)
		if notice != nil {
			notice(text)
		}
	}
	go k.run(ctx)
	return k
}

// Close ends the gateway. It returns when that has been told so.
func (k *Keeper) Close() error {
	k.stop()
	<-k.stopped
	return nil
}

func (k *Keeper) run(ctx context.Context) {
	defer close(k.stopped)
	defer k.settle(nil, net.ErrClosed)
	for pause := k.options.First; ctx.Err() == nil; {
		began := time.Now()
		c, err := k.try(ctx)
		if err == nil {
			k.settle(c, nil)
			if k.untilIdle(ctx, c) {
				k.options.Log.Debug("a gateway was idle and has been ended")
				k.sleep(ctx)
				pause = k.options.First
				continue
			}
			err = c.Err()
		}
		k.settle(nil, err)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > k.options.Most {
			pause = k.options.First
		}
		k.pause(ctx, pause, err)
		pause = min(2*pause, k.options.Most)
		if k.fallAsleep() {
			k.options.Log.Debug("a gateway could not be started, and nobody calls it; it is tried again when somebody does")
			k.sleep(ctx)
			pause = k.options.First
		}
	}
}

// pause waits until a gateway may be started again.
func (k *Keeper) pause(ctx context.Context, pause time.Duration, why error) {
	wait := pause/2 + rand.N(pause)
	if _, lasting := errors.AsType[*LastingError](why); lasting {
		wait = k.options.Lasting
	}
	k.options.Log.Warn("a gateway has ended or could not be started; trying again", "error", why.Error(), "in", wait.String())
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// untilIdle waits until the gateway ends. It ends the gateway itself when ctx ends, or
// when nobody has called it for long, which it reports.
func (k *Keeper) untilIdle(ctx context.Context, c *Client) bool {
	var look <-chan time.Time
	if k.options.Idle > 0 {
		ticker := time.NewTicker(k.options.Idle / 4)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-c.Done():
			return false
		case <-ctx.Done():
			_ = c.Close()
			return false
		case <-look:
			if k.fallAsleep() {
				_ = c.Close()
				return true
			}
		}
	}
}

// fallAsleep takes the gateway away from the next call, if there has been none for long.
func (k *Keeper) fallAsleep() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.options.Idle <= 0 || k.calls > 0 || time.Since(k.used) < k.options.Idle {
		return false
	}
	k.client, k.settled, k.tried = nil, false, make(chan struct{})
	k.asleep, k.wake = true, make(chan struct{})
	return true
}

// sleep waits for the next call.
func (k *Keeper) sleep(ctx context.Context) {
	if k.options.Slept != nil {
		k.options.Slept()
	}
	select {
	case <-k.wake: // only this goroutine makes another
	case <-ctx.Done():
	}
}

// try starts a gateway and waits until it serves.
func (k *Keeper) try(ctx context.Context) (*Client, error) {
	limited, cancel := context.WithTimeout(ctx, k.options.StartTimeout)
	defer cancel()
	conn, err := k.start(limited)
	if err != nil {
		return nil, err
	}
	return New(ctx, conn, k.options.Options)
}

// settle says what came of an attempt.
func (k *Keeper) settle(c *Client, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.client, k.err = c, err
	if !k.settled {
		k.settled = true
		close(k.tried)
	}
}

// because says why there is no gateway yet.
func (k *Keeper) because(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// begin counts a call, wakes the gateway if it sleeps, and tells when there is one or
// none. The call is to be ended by end.
func (k *Keeper) begin() (tried <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.asleep {
		k.asleep = false
		close(k.wake)
	}
	return k.tried
}

func (k *Keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls--
	k.used = time.Now()
}

// now is the gateway's client, or an error that has taught nothing.
func (k *Keeper) now(ctx context.Context, tried <-chan struct{}) (*Client, error) {
	select {
	case <-tried:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the gateway: %w", context.Cause(ctx))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		return nil, unreachable(k.err)
	}
	if k.client.Err() != nil { // it has just ended
		return nil, k.client.lost()
	}
	return k.client, nil
}

// Ready waits until the first attempt to start the gateway has ended, and returns its
// error, or that of the newest one. nil says that the gateway serves.
func (k *Keeper) Ready(ctx context.Context) error {
	defer k.end()
	_, err := k.now(ctx, k.begin())
	return err
}

// call implements caller.
func (k *Keeper) call(ctx context.Context, m message) (message, error) {
	defer k.end()
	c, err := k.now(ctx, k.begin())
	if err != nil {
		return message{}, err
	}
	return c.call(ctx, m)
}
