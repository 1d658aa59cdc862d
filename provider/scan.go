package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// statusTable is what the agents last reported. All of a user's reports are asked for at
// once, and only those are read that have changed. A shared filesystem tells no events
// from other hosts, so it looks again and again.
type statusTable struct {
	registry *registry
	interval time.Duration

	metrics *metrics.Node

	mu    sync.Mutex
	slots map[string][]slotReport // by allocation
	busy  map[string]bool         // users whose site has not answered yet
	paces map[string]*pace        // by user
	mute  map[string]*unreadable  // by user
}

func newStatusTable(registry *registry, interval time.Duration) *statusTable {
	return &statusTable{registry: registry, interval: interval, slots: map[string][]slotReport{}, busy: map[string]bool{}, paces: map[string]*pace{}, mute: map[string]*unreadable{}}
}

type slotReport struct {
	stamp  site.Stamp
	status spool.Status
	// unread is the version that could not be read last, and again when to try it
	// anew: its user may have put anything there, which takes long to read.
	unread site.Stamp
	again  time.Time
}

// unreadAgain is the pause before a file that could not be read is tried again, and
// between two words to the log about files of one user.
const unreadAgain = 5 * time.Second

// unreadable are the reports of a user that could not be read: whoever writes them anew
// all the time gets no line of the log for each.
type unreadable struct {
	next   time.Time // the earliest time of the next line
	untold int       // how often it happened since the last one
}

// tell reports whether it is time for a line. The caller holds the table's lock.
func (u *unreadable) tell(now time.Time) bool {
	if now.Before(u.next) {
		u.untold++
		return false
	}
	u.next = now.Add(unreadAgain)
	return true
}

// run looks until the context ends and calls changed for each gang of which an
// agent has reported something new. A user whose site does not answer holds up nobody
// else's reports.
func (t *statusTable) run(ctx context.Context, changed func(key string)) error {
	ticker := time.NewTicker(t.interval / brisk)
	defer ticker.Stop()
	var looks sync.WaitGroup
	defer looks.Wait()
	for {
		live := t.registry.live()
		for user, theirs := range byUser(live) {
			if !t.begin(user, len(theirs)) {
				continue
			}
			looks.Go(func() {
				began := time.Now()
				news, err := t.scan(ctx, theirs)
				t.done(user, look{began: began, took: time.Since(began), reports: countSlots(theirs), news: len(news) > 0})
				t.tell(ctx, err)
				for _, a := range news {
					changed(a.gang.Key)
				}
			})
		}
		t.forget(live)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func byUser(all []*allocation) map[string][]*allocation {
	users := map[string][]*allocation{}
	for _, a := range all {
		users[a.gang.User] = append(users[a.gang.User], a)
	}
	return users
}

func (t *statusTable) begin(user string, allocations int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paces[user] == nil {
		t.paces[user] = &pace{}
	}
	if t.busy[user] || !t.paces[user].due(time.Now(), allocations) {
		return false
	}
	t.busy[user] = true
	return true
}

// done says that a look is over.
func (t *statusTable) done(user string, l look) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, user)
	t.paces[user].looked(l, t.interval)
}

func countSlots(all []*allocation) int {
	n := 0
	for _, a := range all {
		n += len(a.gang.Slots)
	}
	return n
}

// scan looks at allocations of one user, and returns those with something new. Until a
// job has claimed one there is nothing to see, and one look at the claim will do.
func (t *statusTable) scan(ctx context.Context, all []*allocation) (changed []*allocation, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	var claimed, waiting []*allocation
	t.mu.Lock()
	for _, a := range all {
		if _, ok := t.slots[a.name()]; ok {
			claimed = append(claimed, a)
		} else {
			waiting = append(waiting, a)
		}
	}
	t.mu.Unlock()
	if len(waiting) > 0 {
		var claims []site.Watched
		for _, a := range waiting {
			claims = append(claims, site.Watch(a.dir.Claim(), &spool.Claim{}))
		}
		news, err := all[0].site.Changed(ctx, claims)
		if err != nil {
			return nil, err
		}
		for _, c := range news {
			claimed = append(claimed, waiting[c.Index])
		}
	}
	return t.readReports(ctx, claimed)
}

// scanAll looks until it has seen all that there is: one look may be too small for it.
func (t *statusTable) scanAll(ctx context.Context, all []*allocation) error {
	for {
		changed, err := t.scan(ctx, all)
		if err != nil || len(changed) == 0 {
			return err
		}
	}
}

// readReports reads the reports of claimed allocations of one user.
func (t *statusTable) readReports(ctx context.Context, all []*allocation) (changed []*allocation, err error) {
	type place struct{ allocation, slot int }
	var files []site.Watched
	var places []place
	now := time.Now()
	t.mu.Lock()
	for i, a := range all {
		known := t.slots[a.name()]
		for k := range a.gang.Slots {
			w := site.Watch(a.dir.Status(k), &spool.Status{})
			if known != nil {
				w.Stamp = known[k].known(now)
			}
			files, places = append(files, w), append(places, place{i, k})
		}
	}
	t.mu.Unlock()
	if len(files) == 0 {
		return nil, nil
	}
	news, err := all[0].site.Changed(ctx, files)
	if err != nil {
		return nil, err
	}
	heard := map[int]bool{}
	for _, c := range news {
		if c.Stamp == (site.Stamp{}) && c.Err == nil {
			continue // it has gone: what it said stays
		}
		at := places[c.Index]
		heard[at.allocation] = t.hear(ctx, all[at.allocation], at.slot, files[c.Index].Path, c) || heard[at.allocation]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, a := range all {
		t.entry(a)
		if heard[i] {
			changed = append(changed, a)
		}
	}
	return changed, nil
}

// known is the version that is not to be read again.
func (r *slotReport) known(now time.Time) site.Stamp {
	if now.Before(r.again) {
		return r.unread
	}
	return r.stamp
}

// hear takes in one report, and tells whether it says anything.
func (t *statusTable) hear(ctx context.Context, a *allocation, slot int, path string, c site.Change) bool {
	var s spool.Status
	err := c.Err
	if err == nil {
		err = spool.Decode(path, c.Data, &s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.entry(a)[slot]
	if err != nil {
		now := time.Now()
		r.unread, r.again = c.Stamp, now.Add(unreadAgain)
		if t.mute[a.gang.User] == nil {
			t.mute[a.gang.User] = &unreadable{}
		}
		if u := t.mute[a.gang.User]; u.tell(now) {
			logr.FromContextOrDiscard(ctx).Error(err, "could not read an agent's status; trying again", "gang", a.gang.Key, "slot", slot, "user", a.gang.User, "unreadBefore", u.untold)
			u.untold = 0
		}
		return false
	}
	if was := r.status.Agent.Instance; was != "" && was != s.Agent.Instance {
		t.metrics.AgentRestarted()
	}
	*r = slotReport{stamp: c.Stamp, status: s}
	return true
}

// tell logs what went wrong, but for a cut way to the site: who keeps that tells of it.
func (t *statusTable) tell(ctx context.Context, err error) {
	log := logr.FromContextOrDiscard(ctx)
	if err != nil && !errors.Is(err, site.ErrUnreachable) && !errors.Is(err, context.Canceled) {
		log.Error(err, "could not look for agents' reports; trying again")
	}
}

// entry are an allocation's reports, which is known as claimed from then on. The caller
// holds the lock.
func (t *statusTable) entry(a *allocation) []slotReport {
	if t.slots[a.name()] == nil {
		t.slots[a.name()] = make([]slotReport, len(a.gang.Slots))
	}
	return t.slots[a.name()]
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

// writtenAt is when the last reports of an allocation were written, zero for slots without
// one.
func (t *statusTable) writtenAt(a *allocation) []time.Time {
	times := make([]time.Time, len(a.gang.Slots))
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, r := range t.slots[a.name()] {
		if r.stamp != (site.Stamp{}) {
			times[k] = r.stamp.Time()
		}
	}
	return times
}
