package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// caller carries a call to a gateway, and its answer back.
type caller interface {
	call(ctx context.Context, m message) (message, error)
}

// remote is a site whose calls a gateway answers.
type remote struct {
	caller  caller
	methods calls
	dialer  site.Dialer
}

func newRemote(c caller, d site.Dialer) remote {
	if d == nil {
		d = new(net.Dialer)
	}
	return remote{caller: c, methods: newCalls(), dialer: d}
}

// Write implements site.Files.
func (r remote) Write(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if len(data) > site.MaxFile {
		return fmt.Errorf("writing %s: %d bytes: %w", path, len(data), site.ErrTooLarge)
	}
	_, _, err := r.methods.write.ask(ctx, r.caller, writeIn{path, mode}, data)
	return err
}

// Changed implements site.Files.
func (r remote) Changed(ctx context.Context, files []site.Watched) ([]site.Change, error) {
	if len(files) == 0 {
		return nil, nil
	}
	out, parts, err := r.methods.changed.ask(ctx, r.caller, files)
	changes := make([]site.Change, len(out))
	for i, found := range out {
		if found.Index < 0 || found.Index >= len(files) {
			return nil, errors.New("reading the gateway's answer: it speaks of a file that was not asked for")
		}
		c := site.Change{Index: found.Index, Stamp: found.Stamp, Data: part(parts, i), Err: found.Error.err()}
		if w := files[c.Index]; !w.Fits(c.Data) { // the gateway is a user's process
			c = site.Change{Index: c.Index, Err: fmt.Errorf("reading %s: %w", w.Path, site.ErrTooLarge)}
		}
		changes[i] = c
	}
	return changes, err
}

// List implements site.Files.
func (r remote) List(ctx context.Context, dir string) ([]site.Entry, error) {
	out, _, err := r.methods.list.ask(ctx, r.caller, pathIn{dir})
	return out, err
}

// Names implements site.Files.
func (r remote) Names(ctx context.Context, root, dir string) ([]string, error) {
	out, _, err := r.methods.names.ask(ctx, r.caller, insideIn{Root: root, Name: dir})
	return out, err
}

// ReadAt implements site.Files.
func (r remote) ReadAt(ctx context.Context, root, name string, offset int64, n int) (site.Piece, error) {
	stamp, parts, err := r.methods.readAt.ask(ctx, r.caller, insideIn{Root: root, Name: name, Offset: offset, N: n})
	return site.Piece{Data: part(parts, 0), Stamp: stamp}, err
}

// CreateAllocation implements site.Files.
func (r remote) CreateAllocation(ctx context.Context, root spool.Root, g spool.Gang) error {
	_, _, err := r.methods.create.ask(ctx, r.caller, createIn{root, g})
	return err
}

// RemoveAllocation implements site.Files.
func (r remote) RemoveAllocation(ctx context.Context, dir spool.Dir) error {
	_, _, err := r.methods.remove.ask(ctx, r.caller, pathIn{string(dir)})
	return err
}

// Sweep implements site.Files.
func (r remote) Sweep(ctx context.Context, root spool.Root, node string) error {
	_, _, err := r.methods.sweep.ask(ctx, r.caller, sweepIn{root, node})
	return err
}

// User implements site.Commands.
func (r remote) User(ctx context.Context) (site.User, error) {
	out, _, err := r.methods.user.ask(ctx, r.caller, nothing{})
	return out, err
}

// Find implements site.Commands.
func (r remote) Find(ctx context.Context, names ...string) (map[string]string, error) {
	out, _, err := r.methods.find.ask(ctx, r.caller, names)
	return out, err
}

// Run implements site.Commands. When ctx ends the command is killed, unless it is
// locked.
func (r remote) Run(ctx context.Context, c site.Command) (site.Result, error) {
	out, parts, err := r.methods.run.ask(ctx, r.caller, c, c.Stdin)
	out.Stdout, out.Stderr = part(parts, 0), part(parts, 1)
	return out, err
}

// DialContext implements site.Dialer. It needs no gateway.
func (r remote) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return r.dialer.DialContext(ctx, network, address)
}
