package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

// allocation is one generation of a gang: what the spool says of it, held in
// memory. Only the reconciliation of its gang changes it; the registry's lock
// guards what others read.
type allocation struct {
	// site is where the directory is, as the gang's user sees it.
	site  site.Site
	dir   spool.Dir
	gang  spool.Gang
	job   *spool.Job   // nil until a submission was answered or adopted
	ended *spool.Ended // nil while it may live
	// desired is the last desired.json of each slot (PodUID "" for none),
	// without its orders.
	desired []spool.Desired
	// pods are all pods that were ever given a slot here, with their slot.
	pods map[types.UID]int

	// stopping is when the stop of each slot's pod was first known to be ordered.
	stopping map[int]time.Time

	// untouched tells that no submission was tried since the directory was
	// made: no job of this name can exist.
	untouched bool
	// lastTry is when the last submission ended without a job id; in the future for one
	// that was given up and may be under way until then.
	lastTry time.Time
	tries   int
	// unreleased tells that gang.json does not surely say so when gang.Release is set.
	unreleased bool
	// cut tells that the way to the site was cut during the last submission.
	cut bool
	// submitError is why the last submission failed, or was not made; empty otherwise.
	submitError string
	// idleSince is when the last live pod was gone, zero while there is one.
	idleSince time.Time
	// releasedAt is when the agents were asked to end, cancelledAt when the
	// workload manager was last asked to cancel the job. cancelError are its words.
	releasedAt  time.Time
	cancelledAt time.Time
	cancels     retries
	cancelError string
	// endSeen is when the workload manager first said that the job has ended.
	endSeen time.Time
	// missing counts successive listings without the job.
	missing     int
	missingSeen time.Time
	// lostSince is when enough listings had been without the job.
	lostSince time.Time
}

func (a *allocation) name() string { return a.gang.Allocation }

func (a *allocation) live() bool { return a.ended == nil }

// newAllocation makes the directory and gang.json of a gang's next allocation, which
// may have whole nodes. scratch is the site's rule for scratch volumes.
func newAllocation(ctx context.Context, u *hpcUser, seal func(spool.Gang) string, names translate.Names, g translate.Gang, generation int, wholeNodes bool, scratch string) (*allocation, error) {
	sg := spool.Gang{
		Version:    spool.Version,
		Allocation: translate.AllocationName(names, g, generation, rand.Text()),
		Key:        g.Key,
		Generation: generation,
		Cluster:    names.Cluster,
		Node:       names.Node,
		User:       u.name,
		Owner:      g.Owner,
		Namespace:  g.Namespace,
		OwnerName:  g.OwnerName,
		OwnerUID:   string(g.OwnerUID),
		Tasks:      g.Tasks(),
		Groups:     len(g.TaskGroups()),
		Refills:    g.Refills,
		MovesPorts: g.Whole && !wholeNodes,
		Scratch:    scratch,
	}
	components := g.Components()
	for k, s := range g.Slots {
		sg.Slots = append(sg.Slots, spool.Slot{
			Group: s.Role.Group, Job: s.Role.Job, Index: s.Role.Index,
			Hostname: s.Hosts[0], Hosts: s.Hosts, Rides: s.Rides, GPUs: s.GPUs, MPISlots: s.MPISlots,
			CPUs: s.CPUs, MemoryMiB: s.MemoryMiB, Gres: string(s.Gres),
			Component: components[k],
		})
	}
	sg.Seal = seal(sg)
	a := &allocation{
		site: u.site, dir: u.root.Dir(sg.Allocation),
		gang:    sg,
		desired: make([]spool.Desired, len(sg.Slots)),
		pods:    map[types.UID]int{}, stopping: map[int]time.Time{},
	}
	a.untouched = true
	return a, a.create(ctx, u.root)
}

// create makes the directory with gang.json. If it is there, it was made by an earlier call
// whose answer was lost: nobody else knows the name.
func (a *allocation) create(ctx context.Context, root spool.Root) error {
	err := a.site.CreateAllocation(ctx, root, a.gang)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	var made spool.Gang
	if there, unread := a.read(ctx, a.dir.Gang(), &made); unread != nil || !there || made.Seal != a.gang.Seal {
		return errors.Join(err, unread)
	}
	return nil
}

// read reads a file of the allocation's.
func (a *allocation) read(ctx context.Context, path string, v any) (bool, error) {
	return site.ReadJSON(ctx, a.site, path, v)
}

// write replaces a file of the allocation's.
func (a *allocation) write(ctx context.Context, path string, v any) error {
	return site.WriteJSON(ctx, a.site, path, v)
}

func (a *allocation) writeGang(ctx context.Context) error { return a.write(ctx, a.dir.Gang(), a.gang) }

var (
	// errNotOurs says that a directory belongs to another cluster or node.
	errNotOurs = errors.New("the allocation belongs to another virtual node")
	// errForged says that the node's own word is not in its file.
	errForged = errors.New("gang.json is not as this node has written it: remove the directory; or restore the Secret with the node's seed, if that was lost")
)

// loadAllocation reads an allocation of a user's back from the spool. seal is nil where
// there is one user only: who else could have written it?
func loadAllocation(ctx context.Context, u *hpcUser, name string, seal func(spool.Gang) string, names translate.Names, now time.Time) (*allocation, error) {
	// A submission may have been under way when the process before died.
	a := &allocation{site: u.site, dir: u.root.Dir(name), pods: map[types.UID]int{}, stopping: map[int]time.Time{}, lastTry: now}
	var job spool.Job
	var ended spool.Ended
	stamps, err := site.ReadAllJSON(ctx, u.site, []string{a.dir.Gang(), a.dir.Job(), a.dir.Ended()}, []any{&a.gang, &job, &ended})
	if err != nil {
		return nil, err
	}
	there := func(file int) bool { return stamps[file] != site.Stamp{} }
	if !there(0) || a.gang.Cluster != names.Cluster || a.gang.Node != names.Node {
		return nil, errNotOurs // or nothing that this version made
	}
	if a.gang.Version > spool.Version {
		return nil, fmt.Errorf("%s has format %d and this version reads up to %d: run a newer gangline-node", a.dir, a.gang.Version, spool.Version)
	}
	if seal != nil && (a.gang.Allocation != name || a.gang.User != u.name || a.gang.Seal != seal(a.gang)) {
		return nil, errForged
	}
	a.gang.User = u.name
	if there(1) {
		job.Submitted = notAfter(job.Submitted, now)
		a.job = &job
	}
	if there(2) {
		a.ended = &ended
	}
	if a.gang.Release {
		a.releasedAt = notAfter(stamps[0].Time(), now) // it was the last thing written there
	}
	return a, a.loadSlots(ctx)
}

// notAfter is a time that was written down before now, though the clock was perhaps
// set back since: what is waited for from then on must not wait for as long again.
func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

func (a *allocation) loadSlots(ctx context.Context) error {
	a.desired = make([]spool.Desired, len(a.gang.Slots))
	paths, into := make([]string, len(a.desired)), make([]any, len(a.desired))
	bindings := make([]spool.Binding, len(a.desired))
	for k := range a.desired {
		paths[k], into[k] = a.dir.Desired(k), &bindings[k]
	}
	if _, err := site.ReadAllJSON(ctx, a.site, paths, into); err != nil {
		return err
	}
	for k := range a.desired {
		a.desired[k] = bindings[k].Desired()
		d := &a.desired[k]
		logs, err := a.site.List(ctx, filepath.Join(a.dir.Slot(k), "logs"))
		if err != nil {
			return fmt.Errorf("reading the logs of slot %d: %w", k, err)
		}
		for _, e := range logs {
			a.pods[types.UID(e.Name)] = k
		}
		if d.PodUID != "" {
			a.pods[types.UID(d.PodUID)] = k
		}
	}
	return nil
}

func roleOf(s spool.Slot) translate.Role {
	return translate.Role{Group: s.Group, Job: s.Job, Index: s.Index}
}
