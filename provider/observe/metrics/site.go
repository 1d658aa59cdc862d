package metrics

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// Site is a user's site whose files and connections are counted. It knows whether its
// last call got through.
type Site struct {
	site.Site
	metrics *Process
	down    atomic.Bool
}

// Site counts what is done with a site.
func (p *Process) Site(s site.Site) site.Site {
	if p == nil {
		return s
	}
	return &Site{Site: s, metrics: p}
}

// Down tells that the last call did not reach the site.
func (s *Site) Down() bool { return s.down.Load() }

func (s *Site) count(operation string, began time.Time, err error) {
	s.heard(err)
	count(s.metrics.spoolCalls, s.metrics.spoolErrors, operation, began, err)
}

func (s *Site) heard(err error) {
	if !errors.Is(err, context.Canceled) {
		s.down.Store(errors.Is(err, site.ErrUnreachable))
	}
}

func (s *Site) bytes(direction string, n int) {
	s.metrics.spoolBytes.WithLabelValues(direction).Add(float64(n))
}

// Write implements site.Files.
func (s *Site) Write(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	began := time.Now()
	err := s.Site.Write(ctx, path, data, mode)
	s.count("write", began, err)
	if err == nil {
		s.bytes("written", len(data))
	}
	return err
}

// Changed implements site.Files.
func (s *Site) Changed(ctx context.Context, files []site.Watched) ([]site.Change, error) {
	began := time.Now()
	changes, err := s.Site.Changed(ctx, files)
	s.count("scan", began, err)
	s.metrics.scannedFiles.Add(float64(len(files)))
	n := 0
	for _, c := range changes {
		n += len(c.Data)
	}
	s.bytes("read", n)
	return changes, err
}

// List implements site.Files.
func (s *Site) List(ctx context.Context, dir string) ([]site.Entry, error) {
	began := time.Now()
	entries, err := s.Site.List(ctx, dir)
	s.count("list", began, err)
	return entries, err
}

// Names implements site.Files. A directory that is not there is an answer.
func (s *Site) Names(ctx context.Context, root, dir string) ([]string, error) {
	began := time.Now()
	names, err := s.Site.Names(ctx, root, dir)
	s.count("list", began, unlessAbsent(err))
	return names, err
}

// ReadAt implements site.Files.
func (s *Site) ReadAt(ctx context.Context, root, name string, offset int64, n int) (site.Piece, error) {
	began := time.Now()
	piece, err := s.Site.ReadAt(ctx, root, name, offset, n)
	s.count("read", began, unlessAbsent(err))
	s.bytes("read", len(piece.Data))
	return piece, err
}

func unlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CreateAllocation implements site.Files.
func (s *Site) CreateAllocation(ctx context.Context, root spool.Root, g spool.Gang) error {
	began := time.Now()
	err := s.Site.CreateAllocation(ctx, root, g)
	s.count("create", began, err)
	return err
}

// RemoveAllocation implements site.Files.
func (s *Site) RemoveAllocation(ctx context.Context, dir spool.Dir) error {
	began := time.Now()
	err := s.Site.RemoveAllocation(ctx, dir)
	s.count("remove", began, err)
	return err
}

// Sweep implements site.Files.
func (s *Site) Sweep(ctx context.Context, root spool.Root, node string) error {
	began := time.Now()
	err := s.Site.Sweep(ctx, root, node)
	s.count("sweep", began, err)
	return err
}

// User implements site.Commands.
func (s *Site) User(ctx context.Context) (site.User, error) {
	u, err := s.Site.User(ctx)
	s.heard(err)
	return u, err
}

// DialContext implements site.Dialer. That an HPC node does not answer says nothing
// of the site.
func (s *Site) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	began := time.Now()
	conn, err := s.Site.DialContext(ctx, network, address)
	result := "ok"
	if err != nil {
		result = "error"
	}
	s.metrics.connects.WithLabelValues(result).Observe(time.Since(began).Seconds())
	if err != nil {
		return nil, err
	}
	s.metrics.connections.Inc()
	return &connection{Conn: conn, closed: sync.OnceFunc(s.metrics.connections.Dec)}, nil
}

// connection is counted until it is closed.
type connection struct {
	net.Conn
	closed func()
}

func (c *connection) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
