package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gangline/gangline/agent/image/dirs"
	"github.com/gangline/gangline/agent/image/jsonfile"
	"github.com/gangline/gangline/agent/image/lease"
)

// Entry is an image in the store.
type Entry struct {
	Digest     string         `json:"digest"`
	Arch       string         `json:"arch"`
	References []string       `json:"references"`
	Forms      map[Form]int64 `json:"forms"` // and their sizes in bytes
	Size       int64          `json:"size"`
	LastUse    time.Time      `json:"lastUse"` // by the filesystem's clock
	// Users are the processes that use it now: host.pid.number.
	Users []string `json:"users,omitempty"`

	dir string
}

// FormNames are the forms in which it is there.
func (e Entry) FormNames() []string {
	var names []string
	for f := range e.Forms {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return names
}

// Prune says what is to be removed. Nothing in use is.
type Prune struct {
	// MinAge is how long an image is kept after its last use.
	MinAge time.Duration
	// MaxBytes is how large the store may remain; the images that were not used for the
	// longest time go first.
	MaxBytes int64
	// All removes all that may be, whatever the size.
	All bool
}

// Report is what was removed.
type Report struct {
	Removed []Entry `json:"removed"`
	// Size is the store's, in bytes, after it.
	Size int64 `json:"size"`
}

// List returns the images of the store, the one that was used last first.
func (s *Store) List() ([]Entry, error) {
	now, err := s.now()
	if err != nil {
		return nil, fmt.Errorf("asking the image store for the time: %w", err)
	}
	found, err := filepath.Glob(s.path("images", "*", "*"))
	if err != nil {
		return nil, err
	}
	names := s.names()
	var entries []Entry
	for _, dir := range found {
		e, err := examine(dir, now)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed a moment ago
		}
		if err != nil {
			return nil, err
		}
		e.References = names[e.Digest]
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return b.LastUse.Compare(a.LastUse) })
	return entries, nil
}

// names are the references by the digests that they stand for.
func (s *Store) names() map[string][]string {
	names := map[string][]string{}
	records, _ := filepath.Glob(s.path("refs", "*.json"))
	for _, path := range records {
		var r record
		if jsonfile.Read(path, &r) == nil {
			names[r.Digest] = append(names[r.Digest], r.Reference)
		}
	}
	return names
}

func examine(dir string, now time.Time) (Entry, error) {
	e := Entry{
		Digest: "sha256:" + filepath.Base(dir), Arch: filepath.Base(filepath.Dir(dir)),
		Forms: map[Form]int64{}, dir: dir,
	}
	for f := range files {
		if has(dir, f) {
			var m measure
			_ = jsonfile.Read(measurePath(dir, f), &m) // without it the size is not known
			e.Forms[f] = m.Size
			e.Size += m.Size
		}
	}
	var err error
	e.LastUse, e.Users, err = uses(dir, now)
	return e, err
}

// uses are who uses an image now, and when it was last used: the directory of marks
// changes when one comes or goes.
func uses(dir string, now time.Time) (last time.Time, users []string, _ error) {
	used := filepath.Join(dir, "used")
	info, err := os.Stat(used)
	if err != nil {
		return last, nil, err
	}
	last = info.ModTime()
	marks, err := os.ReadDir(used)
	if err != nil {
		return last, nil, err
	}
	for _, m := range marks {
		info, err := m.Info()
		if err != nil || m.Name() == filepath.Base(removing(dir)) {
			continue // released a moment ago, or no mark
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
		if now.Sub(info.ModTime()) <= useEnds {
			users = append(users, m.Name())
		}
	}
	return last, users, nil
}

// Prune removes images that nobody uses, and what dead processes have left.
func (s *Store) Prune(ctx context.Context, p Prune) (Report, error) {
	entries, err := s.List()
	if err != nil {
		return Report{}, err
	}
	now, err := s.now()
	if err != nil {
		return Report{}, err
	}
	var report Report
	for _, e := range entries {
		report.Size += e.Size
	}
	var failures []error
	for _, e := range victims(entries, p, now) {
		if err := ctx.Err(); err != nil {
			return report, context.Cause(ctx)
		}
		removed, err := s.remove(e)
		if err != nil {
			failures = append(failures, fmt.Errorf("removing image %s: %w", e.Digest, err))
		}
		if removed {
			report.Removed = append(report.Removed, e)
			report.Size -= e.Size
		}
	}
	return report, errors.Join(append(failures, s.sweep(now), s.sweepMarks(now))...)
}

// victims are the images to be removed, the one that was not used for the longest time
// first.
func victims(entries []Entry, p Prune, now time.Time) []Entry {
	var size int64
	for _, e := range entries {
		size += e.Size
	}
	oldest := slices.Clone(entries)
	slices.SortStableFunc(oldest, func(a, b Entry) int { return a.LastUse.Compare(b.LastUse) })
	var chosen []Entry
	for _, e := range oldest {
		if !p.All && (p.MaxBytes == 0 || size <= p.MaxBytes) {
			break
		}
		if len(e.Users) == 0 && now.Sub(e.LastUse) >= p.MinAge {
			chosen = append(chosen, e)
			size -= e.Size
		}
	}
	return chosen
}

// remove removes an image, unless somebody has begun to use it (see use).
func (s *Store) remove(e Entry) (bool, error) {
	sign, err := os.OpenFile(removing(e.dir), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) && s.forgotten(removing(e.dir)) {
		return false, os.Remove(removing(e.dir)) // the next time
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return false, nil // another removes it
	}
	if err != nil {
		return false, err
	}
	sign.Close() //nolint:errcheck // empty
	now, err := s.now()
	if err == nil {
		_, e.Users, err = uses(e.dir, now)
	}
	if err != nil || len(e.Users) > 0 {
		return false, errors.Join(err, os.Remove(removing(e.dir)))
	}
	rubbish := s.path("work", trash+lease.Nonce())
	if err := dirs.Make(filepath.Dir(rubbish)); err != nil {
		return false, errors.Join(err, os.Remove(removing(e.dir)))
	}
	if err := os.Rename(e.dir, rubbish); err != nil {
		return false, errors.Join(err, os.Remove(removing(e.dir)))
	}
	return true, os.RemoveAll(rubbish)
}

// trash begins the names of what is being removed.
const trash = "trash."

// sweepMarks removes those marks of use that count no more. That is no use of an image.
func (s *Store) sweepMarks(now time.Time) error {
	used, err := filepath.Glob(s.path("images", "*", "*", "used"))
	failures := []error{err}
	for _, dir := range used {
		last, _, err := uses(filepath.Dir(dir), now)
		marks, readErr := os.ReadDir(dir)
		if err != nil || readErr != nil {
			continue // removed a moment ago
		}
		for _, m := range marks {
			info, err := m.Info()
			if err != nil || m.Name() == filepath.Base(removing(dir)) || now.Sub(info.ModTime()) <= useEnds {
				continue
			}
			failures = append(failures, os.RemoveAll(filepath.Join(dir, m.Name())))
			_ = os.Chtimes(dir, last, last) // another user's directory only seems to have been used now
		}
	}
	return errors.Join(failures...)
}

// sweep removes what dead processes have left: half images that nobody goes on with,
// half removals, looks at the clock, and names of images that are gone.
func (s *Store) sweep(now time.Time) error {
	const old = 24 * time.Hour
	works, err := os.ReadDir(s.path("work"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var failures []error
	for _, w := range works {
		info, err := w.Info()
		if err != nil || now.Sub(info.ModTime()) < old {
			continue
		}
		digest, _, _ := strings.Cut(w.Name(), ".")
		if strings.HasPrefix(w.Name(), trash) || !s.underWay(digest, now) {
			failures = append(failures, os.RemoveAll(s.path("work", w.Name())))
		}
	}
	stamps, _ := filepath.Glob(s.path(stamp))
	for _, path := range stamps {
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) >= old {
			failures = append(failures, os.RemoveAll(path))
		}
	}
	names, _ := filepath.Glob(s.path("refs", "*.json"))
	for _, path := range names {
		var r record
		info, err := os.Stat(path)
		if err != nil || now.Sub(info.ModTime()) < old || jsonfile.Read(path, &r) != nil {
			continue
		}
		if there, _ := filepath.Glob(s.path("images", "*", key(r.Digest))); len(there) == 0 {
			failures = append(failures, os.Remove(path))
		}
	}
	return errors.Join(failures...)
}

// underWay says whether somebody alive makes an image of that digest.
func (s *Store) underWay(digest string, now time.Time) bool {
	held, _ := filepath.Glob(s.path("leases", digest, "*"))
	for _, path := range held {
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) < useEnds {
			return true
		}
	}
	return false
}
