package provider

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	// lastTry is when the last submission ended without a job id.
	lastTry time.Time
	tries   int
	// submitError is the last submission's error in the workload manager's
	// words.
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
// may have whole nodes.
func newAllocation(root spool.Root, names translate.Names, g translate.Gang, generation int, wholeNodes bool) (*allocation, error) {
	sg := spool.Gang{
		Version:    spool.Version,
		Allocation: translate.AllocationName(names, g, generation, rand.Text()),
		Key:        g.Key,
		Generation: generation,
		Cluster:    names.Cluster,
		Node:       names.Node,
		Owner:      g.Owner,
		Namespace:  g.Namespace,
		OwnerName:  g.OwnerName,
		OwnerUID:   string(g.OwnerUID),
		Tasks:      g.Tasks(),
		Groups:     len(g.TaskGroups()),
		Refills:    g.Refills,
		MovesPorts: g.Whole && !wholeNodes,
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
	a := &allocation{
		dir:     root.Dir(sg.Allocation),
		gang:    sg,
		desired: make([]spool.Desired, len(sg.Slots)),
		pods:    map[types.UID]int{}, stopping: map[int]time.Time{},
	}
	a.untouched = true
	return a, root.Create(sg)
}

func (a *allocation) writeGang() error { return spool.Write(a.dir.Gang(), a.gang) }

// errNotOurs says that a directory belongs to another cluster or node.
var errNotOurs = errors.New("the allocation belongs to another virtual node")

// loadAllocation reads an allocation back from the spool.
func loadAllocation(dir spool.Dir, names translate.Names, now time.Time) (*allocation, error) {
	// A submission may have been under way when the process before died.
	a := &allocation{dir: dir, pods: map[types.UID]int{}, stopping: map[int]time.Time{}, lastTry: now}
	if ok, err := spool.Read(dir.Gang(), &a.gang); err != nil {
		return nil, err
	} else if !ok {
		return nil, errNotOurs // nothing that this version made
	}
	if a.gang.Cluster != names.Cluster || a.gang.Node != names.Node {
		return nil, errNotOurs
	}
	if a.gang.Version > spool.Version {
		return nil, fmt.Errorf("%s has format %d and this version reads up to %d: run a newer gangline-node", dir, a.gang.Version, spool.Version)
	}
	var job spool.Job
	if ok, err := spool.Read(dir.Job(), &job); err != nil {
		return nil, err
	} else if ok {
		job.Submitted = notAfter(job.Submitted, now)
		a.job = &job
	}
	var ended spool.Ended
	if ok, err := spool.Read(dir.Ended(), &ended); err != nil {
		return nil, err
	} else if ok {
		a.ended = &ended
	}
	if a.gang.Release {
		a.releasedAt = now
		if info, err := os.Stat(dir.Gang()); err == nil {
			a.releasedAt = notAfter(info.ModTime(), now) // it was the last thing written there
		}
	}
	a.desired = make([]spool.Desired, len(a.gang.Slots))
	for k := range a.gang.Slots {
		if err := a.loadSlot(k); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// notAfter is a time that was written down before now, though the clock was perhaps
// set back since: what is waited for from then on must not wait for as long again.
func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

func (a *allocation) loadSlot(k int) error {
	d := &a.desired[k]
	if _, err := spool.Read(a.dir.Desired(k), d); err != nil {
		return err
	}
	d.Orders, d.Update = nil, nil
	logs, err := os.ReadDir(filepath.Join(a.dir.Slot(k), "logs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the logs of slot %d: %w", k, err)
	}
	for _, e := range logs {
		a.pods[types.UID(e.Name())] = k
	}
	if d.PodUID != "" {
		a.pods[types.UID(d.PodUID)] = k
	}
	return nil
}

func roleOf(s spool.Slot) translate.Role {
	return translate.Role{Group: s.Group, Job: s.Job, Index: s.Index}
}
