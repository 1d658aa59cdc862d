package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// far is a site behind a gateway in this process. The way to the gateway and to the
// nodes can be cut.
type far struct {
	*gateway.Keeper
	// met has a value once a call has met the cut.
	met chan struct{}

	mu    sync.Mutex
	cause error // nil while the way is open
	conns []io.Closer
}

var _ site.Site = (*far)(nil)

func newFar(t *testing.T) *far {
	t.Helper()
	f := &far{met: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	var gateways sync.WaitGroup
	f.Keeper = gateway.Keep(func(context.Context) (io.ReadWriteCloser, error) {
		near, there := net.Pipe()
		if err := f.add(there); err != nil {
			return nil, err
		}
		gateways.Go(func() {
			defer there.Close() //nolint:errcheck // of a gateway that has ended
			_ = gateway.Serve(ctx, there, there, slog.New(slog.DiscardHandler))
		})
		return near, nil
	}, gateway.KeepOptions{
		Options: gateway.Options{Dialer: dialer{f}},
		First:   10 * time.Millisecond, Most: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		assert.NoError(t, f.Close())
		cancel()
		gateways.Wait()
	})
	return f
}

// add takes up a connection, or closes it if the way is cut.
func (f *far) add(c io.Closer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil {
		return errors.Join(f.cause, c.Close())
	}
	f.conns = append(f.conns, c)
	return nil
}

// cutOff ends all connections, and lets none be made until mend.
func (f *far) cutOff(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cause = cause
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

func (f *far) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cause = nil
}

// lost waits until calls are told the cause.
func (f *far) lost(t *testing.T, cause error) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := f.Ready(t.Context())
		return err != nil && err.Error() == fmt.Errorf("%w: %w", site.ErrUnreachable, cause).Error()
	}, patience, time.Millisecond)
}

// back waits until there is a gateway again.
func (f *far) back(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return f.Ready(t.Context()) == nil }, patience, time.Millisecond)
}

// Names implements site.Files.
func (f *far) Names(ctx context.Context, root, dir string) ([]string, error) {
	names, err := f.Keeper.Names(ctx, root, dir)
	f.tell(err)
	return names, err
}

// ReadAt implements site.Files.
func (f *far) ReadAt(ctx context.Context, root, name string, offset int64, n int) (site.Piece, error) {
	piece, err := f.Keeper.ReadAt(ctx, root, name, offset, n)
	f.tell(err)
	return piece, err
}

func (f *far) tell(err error) {
	if errors.Is(err, site.ErrUnreachable) {
		select {
		case f.met <- struct{}{}:
		default:
		}
	}
}

// dialer reaches the nodes by the far site's way.
type dialer struct{ far *far }

// DialContext implements site.Dialer.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := d.far.add(conn); err != nil {
		return nil, fmt.Errorf("%w: %w", site.ErrUnreachable, err)
	}
	return conn, nil
}
