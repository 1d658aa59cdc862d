package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/image/dirs"
	"github.com/gangline/gangline/agent/image/fetch"
	"github.com/gangline/gangline/agent/image/jsonfile"
	"github.com/gangline/gangline/agent/image/lease"
)

// making is one form of one image that is to be there.
type making struct {
	request Request
	ref     name.Reference
	digest  string
	dir     string
	tell    *teller
}

// make sees to it that the image is there: by waiting for another who makes it, or by
// making it. It returns how long that took where it was this process, and 0 otherwise.
func (s *Store) make(ctx context.Context, m making) (time.Duration, error) {
	for !has(m.dir, m.request.Form) {
		m.tell.pulling()
		held, heldCtx, err := lease.Acquire(ctx, s.path("leases", key(m.digest)), lease.Nonce(), s.pace, func(holder lease.Record) bool {
			m.tell.waiting(holder)
			return has(m.dir, m.request.Form)
		})
		if err != nil {
			return 0, err
		}
		if held == nil {
			continue // another has made it
		}
		took, err := s.makeAlone(heldCtx, held, m)
		held.Release()
		if errors.Is(err, lease.ErrLost) {
			s.options.Logger.Warn("another agent goes on with pulling an image", "image", m.request.Reference, "error", err)
			continue
		}
		s.shrink()
		return took, err
	}
	return 0, nil
}

func (s *Store) makeAlone(ctx context.Context, held *lease.Lease, m making) (time.Duration, error) {
	if look(m.dir); has(m.dir, m.request.Form) {
		return 0, nil
	}
	begin := time.Now()
	work, err := s.workDir(m.digest)
	if err != nil {
		return 0, err
	}
	err = s.build(ctx, held, m, work)
	if fetch.NoSpace(err) {
		// What nobody uses makes room, once.
		report, pruneErr := s.Prune(ctx, Prune{MinAge: s.options.MinAge, All: true})
		if pruneErr == nil && len(report.Removed) > 0 {
			err = s.build(ctx, held, m, work)
		}
	}
	switch {
	case err == nil, fetch.NoSpace(err):
		err = errors.Join(err, os.RemoveAll(work))
	default:
		// What has been downloaded is of use to who tries next.
	}
	if err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}

// shrink keeps the store below its size, and free of what the dead have left. Nobody waits
// for it: removing takes time too.
func (s *Store) shrink() {
	if !s.pruning.TryLock() {
		return
	}
	go func() {
		defer s.pruning.Unlock()
		if _, err := s.Prune(context.Background(), Prune{MinAge: s.options.MinAge, MaxBytes: s.options.MaxBytes}); err != nil {
			s.options.Logger.Warn("the image store cannot be made smaller", "error", err)
		}
	}()
}

// workDir is a directory of this process's own, with what an earlier try has left.
// Whoever was asleep meanwhile finds its files under a name that it does not know.
func (s *Store) workDir(digest string) (string, error) {
	prefix := s.path("work", key(digest)+"."+s.arch+".")
	work := prefix + lease.Nonce()
	if err := dirs.Make(filepath.Dir(work)); err != nil {
		return "", fmt.Errorf("making the image store's work directory: %w", err)
	}
	earlier, _ := filepath.Glob(prefix + "*")
	for _, e := range earlier {
		if os.Rename(e, work) == nil {
			break
		}
	}
	if err := dirs.Make(work); err != nil {
		return "", fmt.Errorf("making a directory to pull into: %w", err)
	}
	left, err := os.ReadDir(work)
	if err != nil {
		return "", err
	}
	for _, l := range left {
		if l.Name() == layout {
			err = errors.Join(err, fetch.Clean(filepath.Join(work, l.Name())))
		} else {
			err = errors.Join(err, os.RemoveAll(filepath.Join(work, l.Name())))
		}
	}
	return work, err
}

// build makes the form in the work directory and moves it to its place.
func (s *Store) build(ctx context.Context, held *lease.Lease, m making, work string) error {
	begin := time.Now()
	form := m.request.Form
	var size int64
	var err error
	product := formPath(work, form)
	if base, made := bases[form]; made {
		from := formPath(m.dir, base)
		if !exists(from) {
			from = formPath(work, base)
			if _, err := s.pull(ctx, held, m, work); err != nil {
				return err
			}
		}
		size, err = s.convert(ctx, held, m, from, product)
	} else {
		size, err = s.pull(ctx, held, m, work)
	}
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return s.publish(m, product, measure{Size: size, Seconds: time.Since(begin).Seconds()})
}

// layout is the directory of a work directory in which an image is as it was downloaded.
const layout = "oci"

// pull brings a tree into the work directory, and returns its size.
func (s *Store) pull(ctx context.Context, held *lease.Lease, m making, work string) (int64, error) {
	config, err := s.registryConfig(m.request)
	if err != nil {
		return 0, err
	}
	job := fetch.Job{
		Registry: config, Reference: m.ref.Context().Digest(m.digest).Name(),
		Layout: filepath.Join(work, layout), Tree: formPath(work, FormTree), Shared: s.shared, Tool: s.options.Tool,
	}
	// A second try in the same place begins with nothing.
	if err := errors.Join(os.RemoveAll(job.Tree), os.Mkdir(job.Tree, 0o755)); err != nil {
		return 0, err
	}
	result, err := s.fetch(ctx, job, func(p fetch.Progress) {
		held.Note(amount(p))
		m.tell.progress(amount(p))
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return 0, err
	}
	d := description{Reference: m.ref.Name(), Digest: m.digest, Config: result.Config}
	if err := jsonfile.Write(filepath.Join(m.dir, "image.json"), d); err != nil {
		return 0, fmt.Errorf("writing the image's description: %w", err)
	}
	return result.Size, nil
}

// publish moves what is whole to its place. Another may have been quicker: it is the same.
func (s *Store) publish(m making, product string, size measure) error {
	if err := syncFilesystem(product); err != nil {
		return fmt.Errorf("writing the image out: %w", err)
	}
	if err := jsonfile.Write(measurePath(m.dir, m.request.Form), size); err != nil {
		return fmt.Errorf("writing the image's size: %w", err)
	}
	err := os.Rename(product, formPath(m.dir, m.request.Form))
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("moving the image to its place: %w", err)
	}
	return nil
}

// syncFilesystem writes out what this machine has in memory for a file's filesystem: a
// node that dies must not leave an image with empty files behind.
func syncFilesystem(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
