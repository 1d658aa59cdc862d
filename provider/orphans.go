package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// Orphan is a job or a spool directory that bears the node's mark while the node
// knows no allocation of that name.
type Orphan struct {
	// Kind is KindJob or KindDirectory, Name the allocation's name.
	Kind, Name string
	// Job is the job's id; empty for a directory.
	Job string
	// User is whose it is, where there are several.
	User string
	// State is the job's state in the workload manager's own word.
	State string
}

// The kinds of orphans.
const (
	KindJob       = "job"
	KindDirectory = "directory"
)

// id tells orphans apart.
func (o Orphan) id() string { return o.Kind + " " + o.Job + " " + o.Name + " " + o.User }

func (o Orphan) String() string {
	if o.Kind == KindJob {
		return fmt.Sprintf("job %s (%s), which is %s", o.Job, o.Name, o.State)
	}
	return "directory " + o.Name
}

// findOrphans picks what bears the mark and is not known. A directory whose job is
// active is not named beside it: it goes when the job has gone.
func findOrphans(names translate.Names, active []wlm.Job, dirs []spoolDir, known func(allocation string) bool) []Orphan {
	var found []Orphan
	busy := map[spoolDir]bool{}
	for _, j := range active {
		busy[spoolDir{j.User, j.Name}] = true
		if names.Own(j.Name) && !known(j.Name) {
			found = append(found, Orphan{Kind: KindJob, Name: j.Name, Job: j.ID, User: j.User, State: j.State})
		}
	}
	for _, d := range dirs {
		if names.Own(d.name) && !known(d.name) && !busy[d] {
			found = append(found, Orphan{Kind: KindDirectory, Name: d.name, User: d.user})
		}
	}
	return found
}

// spoolDir is a directory of a user's spool.
type spoolDir struct{ user, name string }

// orphanTable remembers since when each orphan is known, and whether it was told of.
// Only run uses it.
type orphanTable struct {
	config   OrphansConfig
	since    map[string]time.Time
	told     map[string]bool
	recorder record.EventRecorder
	node     *corev1.ObjectReference
	found    *prometheus.GaugeVec   // by kind
	cleaned  *prometheus.CounterVec // by kind
}

func newOrphanTable(c Config, recorder record.EventRecorder, m *metrics.Node) *orphanTable {
	return &orphanTable{
		config: c.Orphans, since: map[string]time.Time{}, told: map[string]bool{}, recorder: recorder,
		node:  nodeReference(c.NodeName),
		found: m.OrphansFound, cleaned: m.OrphansCleaned,
	}
}

// due takes in what is found at a moment, and returns what has been an orphan for
// the grace period. What is found no more is forgotten.
func (o *orphanTable) due(found []Orphan, now time.Time) []Orphan {
	var due []Orphan
	since := make(map[string]time.Time, len(found))
	count := map[string]int{KindJob: 0, KindDirectory: 0}
	for _, f := range found {
		first, known := o.since[f.id()]
		if !known {
			first = now
		}
		since[f.id()] = first
		count[f.Kind]++
		if now.Sub(first) >= o.config.Grace.Duration {
			due = append(due, f)
		}
	}
	o.since = since
	for id := range o.told {
		if _, still := since[id]; !still {
			delete(o.told, id)
		}
	}
	for kind, n := range count {
		o.found.WithLabelValues(kind).Set(float64(n))
	}
	return due
}

// tell says once what is known of an orphan and what is done about it.
func (o *orphanTable) tell(ctx context.Context, f Orphan) {
	if o.told[f.id()] {
		return
	}
	o.told[f.id()] = true
	doing := "it is left alone, as configured"
	if o.config.Action == OrphansClean {
		doing = map[string]string{KindJob: "it is cancelled", KindDirectory: "it is removed"}[f.Kind]
	}
	logr.FromContextOrDiscard(ctx).Info("found an orphan", "kind", f.Kind, "allocation", f.Name, "job", f.Job, "state", f.State, "action", o.config.Action)
	o.recorder.Eventf(o.node, corev1.EventTypeWarning, "Orphan", "%s bears this node's mark and belongs to no allocation that it knows: %s", f, doing)
}

// lookForOrphans runs until the context ends. It also has the gangs looked at
// again that have an allocation and no pods: whatever event was missed, they are
// given back and cleared away.
func (r *Reconciler) lookForOrphans(ctx context.Context, o *orphanTable) error {
	if o.config.Action == OrphansIgnore {
		return nil
	}
	ticker := time.NewTicker(min(max(o.config.Grace.Duration/2, time.Second), time.Minute))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			r.cleanOrphans(ctx, o, now)
			for _, key := range r.registry.keys("") {
				if len(r.owners.members(key)) == 0 {
					r.look(key)
				}
			}
		}
	}
}

// cleanOrphans looks once. It changes nothing while the workload manager is silent.
func (r *Reconciler) cleanOrphans(ctx context.Context, o *orphanTable, now time.Time) {
	active, listed := r.jobs.activeAt()
	if now.Sub(listed) > staleListing+2*r.config.JobInterval.Duration {
		return
	}
	dirs, users := r.spoolDirs(ctx)
	var theirs []wlm.Job
	for _, j := range active {
		if u, met := r.people.whose(j); met {
			j.User = u.name
			theirs = append(theirs, j)
		}
	}
	active = theirs
	theirOrphans := map[string][]Orphan{}
	for _, f := range o.due(findOrphans(r.registry.names, active, dirs, r.registry.has), now) {
		o.tell(ctx, f)
		theirOrphans[f.User] = append(theirOrphans[f.User], f)
	}
	if o.config.Action != OrphansClean {
		return
	}
	var group errgroup.Group
	group.SetLimit(orphanUsers)
	for user, found := range theirOrphans {
		group.Go(func() error {
			for _, f := range found {
				if r.clean(ctx, users[user], f) {
					o.cleaned.WithLabelValues(f.Kind).Inc()
				}
			}
			return nil
		})
	}
	_ = group.Wait() // nothing fails: what was not cleaned is found again
}

// orphanUsers is for how many users orphans are looked for at once: a site that does not
// answer keeps the others waiting for its own deadline otherwise.
const orphanUsers = 16

// spoolDirs are the directories in the spools of all users, and the users whose spools could
// be read. Of the others nothing is known, so nothing of theirs is an orphan.
func (r *Reconciler) spoolDirs(ctx context.Context) ([]spoolDir, map[string]*hpcUser) {
	var mu sync.Mutex
	var dirs []spoolDir
	users := map[string]*hpcUser{}
	var group errgroup.Group
	group.SetLimit(orphanUsers)
	for _, u := range r.people.met() {
		group.Go(func() error {
			names, err := allocationsOf(ctx, u)
			if err != nil {
				logr.FromContextOrDiscard(ctx).Error(err, "could not look for orphans; trying again", "user", u.name)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			users[u.name] = u
			for _, name := range names {
				dirs = append(dirs, spoolDir{u.name, name})
			}
			return nil
		})
	}
	_ = group.Wait() // each has logged its own error
	return dirs, users
}

// staleListing is how old a listing may be, beside the interval between two, for
// something to be cleaned by it.
const staleListing = 30 * time.Second

// clean ends one orphan.
func (r *Reconciler) clean(ctx context.Context, u *hpcUser, f Orphan) bool {
	if f.Kind == KindJob {
		return r.pursue(ctx, wlm.Job{ID: f.Job, Name: f.Name, User: f.User}, "it is an orphan")
	}
	dir := u.root.Dir(f.Name)
	log := logr.FromContextOrDiscard(ctx).WithValues("allocation", f.Name)
	var g spool.Gang
	if there, err := site.ReadJSON(ctx, u.site, dir.Gang(), &g); err == nil && there && (g.Cluster != r.registry.names.Cluster || g.Node != r.registry.names.Node) {
		return false // its name lies
	}
	if err := u.site.RemoveAllocation(ctx, dir); err != nil {
		log.Error(err, "could not remove an orphaned directory; trying again")
		return false
	}
	log.Info("removed an orphaned directory")
	return true
}
