package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// registry knows all allocations of this node, by gang and generation.
type registry struct {
	names translate.Names

	mu     sync.Mutex
	byGang map[string][]*allocation // ascending generations
	byName map[string]*allocation
	byPod  map[types.UID]*allocation
}

func newRegistry(names translate.Names) *registry {
	return &registry{names: names, byGang: map[string][]*allocation{}, byName: map[string]*allocation{}, byPod: map[types.UID]*allocation{}}
}

// loading is how many allocations are read side by side.
const loading = 16

// load takes in what the spool holds of a user's. It removes what an earlier process of
// the node has left there half made. mine tells whether a pod that the user's files name
// is in a namespace.
func (r *registry) load(ctx context.Context, u *hpcUser, seal func(spool.Gang) string, mine func(pod types.UID, namespace string) bool, now time.Time) error {
	if err := u.site.Sweep(ctx, u.root, r.names.Node); err != nil {
		return err
	}
	dirs, err := allocationsOf(ctx, u)
	if err != nil {
		return err
	}
	found := make([]*allocation, len(dirs))
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(loading)
	for i, name := range dirs {
		group.Go(func() error {
			a, err := loadAllocation(each, u, name, seal, r.names, now)
			if errors.Is(err, errNotOurs) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("recovering allocation %s: %w", name, err)
			}
			found[i] = a
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, a := range found {
		if a != nil {
			maps.DeleteFunc(a.pods, func(uid types.UID, _ int) bool { return !mine(uid, a.gang.Namespace) })
			r.add(a)
		}
	}
	return nil
}

// listTimeout bounds the listing of a directory: one user's filesystem may hang.
const listTimeout = 30 * time.Second

// allocationsOf lists the directories of a user's allocations.
func allocationsOf(ctx context.Context, u *hpcUser) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	entries, err := u.site.List(ctx, u.root.Gangs())
	if err != nil {
		return nil, fmt.Errorf("listing the spool's gangs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Dir && !strings.HasPrefix(e.Name, ".") {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

func (r *registry) add(a *allocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName[a.name()] != nil {
		return // it was read before
	}
	list := append(r.byGang[a.gang.Key], a)
	slices.SortStableFunc(list, func(x, y *allocation) int { return cmp.Compare(x.gang.Generation, y.gang.Generation) })
	r.byGang[a.gang.Key] = list
	r.byName[a.name()] = a
	for pod := range a.pods {
		if had := r.byPod[pod]; had == nil || had.gang.User == a.gang.User { // or one user's files would take another's pod
			r.byPod[pod] = a
		}
	}
}

// latest is the gang's newest allocation, live or ended; nil if it had none.
func (r *registry) latest(key string) *allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.byGang[key]
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// of are a gang's allocations, by their generations.
func (r *registry) of(key string) []*allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.byGang[key])
}

// keys are the gangs that have an allocation and whose key begins so.
func (r *registry) keys(prefix string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []string
	for k := range r.byGang {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	return keys
}

// live are all allocations that have not ended.
func (r *registry) live() []*allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var live []*allocation
	for _, a := range r.byName {
		if a.live() {
			live = append(live, a)
		}
	}
	return live
}

// has tells whether an allocation of this name is known, live or ended.
func (r *registry) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.byName[name]
	return ok
}

// hasEnded tells whether an allocation of this name is ours and has ended.
func (r *registry) hasEnded(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.byName[name]
	return ok && !a.live()
}

// record notes the job that holds an allocation.
func (r *registry) record(a *allocation, job spool.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.job = &job
}

// submitted are the jobs of the allocations that have not ended.
func (r *registry) submitted() []wlm.JobRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	var refs []wlm.JobRef
	for name, a := range r.byName {
		if a.live() && a.job != nil {
			refs = append(refs, wlm.JobRef{Name: name, ID: a.job.ID, Submitted: a.job.Submitted})
		}
	}
	return refs
}

// markEnded takes an allocation out of the living ones.
func (r *registry) markEnded(a *allocation, e spool.Ended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.ended = &e
}

// bind notes that a pod has a slot.
func (r *registry) bind(a *allocation, pod types.UID, slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.pods[pod] = slot
	r.byPod[pod] = a
}

// place is where a pod has had a slot.
type place struct {
	slot  int
	ended *spool.Ended // of the allocation, nil while that lives
}

// place returns where a pod has or had a slot, nil if nowhere.
func (r *registry) place(pod types.UID) *place {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.byPod[pod]
	if !ok {
		return nil
	}
	return &place{slot: a.pods[pod], ended: a.ended}
}

// gangOf returns the gang in whose allocations a pod has or had a slot.
func (r *registry) gangOf(pod types.UID) (key string, ok bool) {
	a, _, ok := r.find(pod)
	if !ok {
		return "", false
	}
	return a.gang.Key, true
}

// find returns the allocation in which a pod has or had a slot.
func (r *registry) find(pod types.UID) (a *allocation, slot int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok = r.byPod[pod]
	if !ok {
		return nil, 0, false
	}
	return a, a.pods[pod], true
}

// drop forgets the ended allocations that nobody needs, and returns them: no
// pod of theirs is left in the API server (their logs go with them), and the
// gang is gone or has a newer one.
func (r *registry) drop(key string, gangGone bool, exists func(types.UID) bool) []*allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.byGang[key]
	kept := list[:0:0]
	var unneeded []*allocation
	for i, a := range list {
		newest := i == len(list)-1
		inUse := a.live() || (newest && !gangGone)
		for uid := range a.pods {
			inUse = inUse || exists(uid)
		}
		if inUse {
			kept = append(kept, a)
			continue
		}
		unneeded = append(unneeded, a)
		delete(r.byName, a.name())
		for pod := range a.pods {
			delete(r.byPod, pod)
		}
	}
	r.byGang[key] = kept
	if len(kept) == 0 {
		delete(r.byGang, key)
	}
	return unneeded
}

// collect removes what nobody needs any more from memory and from the spool.
func (r *registry) collect(ctx context.Context, key string, gangGone bool, exists func(types.UID) bool) error {
	var errs []error
	for _, a := range r.drop(key, gangGone, exists) {
		faults.At(faults.Collecting)
		errs = append(errs, a.site.RemoveAllocation(ctx, a.dir))
	}
	return errors.Join(errs...)
}
