package provider

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/gangline/gangline/provider/spool"
)

// statusTable is what the agents last reported. It looks at the files' times
// and reads only those that have changed. A shared filesystem tells no events
// from other hosts, so it looks again and again.
type statusTable struct {
	registry *registry
	interval time.Duration

	mu    sync.Mutex
	slots map[string][]slotReport // by allocation
}

type slotReport struct {
	stamp  fileStamp
	status spool.Status
	// unread is the version that could not be read last, and again when to try it
	// anew: its user may have put anything there, which takes long to read.
	unread fileStamp
	again  time.Time
}

// unreadAgain is the pause before a file that could not be read is tried again.
const unreadAgain = 5 * time.Second

// fileStamp tells one version of a file from the next. Each is a file of its
// own, so the inode differs where size and time are the same.
type fileStamp struct {
	modified time.Time
	size     int64
	inode    uint64
}

// stampOf opens the file: a shared filesystem answers a mere stat from its
// cache, for as long as a minute, and asks the server at an open (nfs(5),
// close-to-open consistency).
func stampOf(path string) (fileStamp, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fileStamp{}, err
	}
	defer f.Close() //nolint:errcheck // only looked at
	info, err := f.Stat()
	if err != nil {
		return fileStamp{}, err
	}
	stamp := fileStamp{modified: info.ModTime(), size: info.Size()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp.inode = system.Ino
	}
	return stamp, nil
}

// run looks until the context ends and calls changed for each gang of which an
// agent has reported something new.
func (t *statusTable) run(ctx context.Context, changed func(key string)) error {
	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()
	for {
		live := t.registry.live()
		for _, a := range live {
			if t.scan(ctx, a) {
				changed(a.gang.Key)
			}
		}
		t.forget(live)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// scan looks at one allocation. Until a job has claimed it there is nothing to
// see, and one look at the claim will do.
func (t *statusTable) scan(ctx context.Context, a *allocation) bool {
	t.mu.Lock()
	reports, claimed := t.slots[a.name()]
	t.mu.Unlock()
	if !claimed {
		if _, err := stampOf(a.dir.Claim()); err != nil {
			return false
		}
		reports = make([]slotReport, len(a.gang.Slots))
	}
	fresh := make([]slotReport, len(reports))
	copy(fresh, reports)
	changed := false
	for k := range fresh {
		stamp, err := stampOf(a.dir.Status(k))
		if err != nil || stamp == fresh[k].stamp || stamp == fresh[k].unread && time.Now().Before(fresh[k].again) {
			continue
		}
		var s spool.Status
		if _, err := spool.Read(a.dir.Status(k), &s); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "could not read an agent's status; trying again", "gang", a.gang.Key, "slot", k)
			fresh[k].unread, fresh[k].again = stamp, time.Now().Add(unreadAgain)
			continue
		}
		fresh[k] = slotReport{stamp: stamp, status: s}
		changed = true
	}
	t.mu.Lock()
	t.slots[a.name()] = fresh
	t.mu.Unlock()
	return changed
}

// forget drops the reports of allocations that have ended.
func (t *statusTable) forget(live []*allocation) {
	keep := make(map[string]bool, len(live))
	for _, a := range live {
		keep[a.name()] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.slots {
		if !keep[name] {
			delete(t.slots, name)
		}
	}
}

// of returns the last reports of an allocation, one for each slot.
func (t *statusTable) of(a *allocation) []spool.Status {
	statuses := make([]spool.Status, len(a.gang.Slots))
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, r := range t.slots[a.name()] {
		statuses[k] = r.status
	}
	return statuses
}
