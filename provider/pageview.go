package provider

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider/page"
	"github.com/gangline/gangline/provider/spool"
)

// validatePage checks where the page is served without asking who looks.
func (c *Config) validatePage() error {
	if c.PageAddress == "" {
		return nil
	}
	if err := page.CheckLoopback(c.PageAddress); err != nil {
		return fmt.Errorf("pageAddress: %w", err)
	}
	return nil
}

// pageSource tells the page about one virtual node, from what this process knows already.
type pageSource struct {
	r       *Reconciler
	node    *virtualNode
	manager string // with its version
}

var _ page.Source = (*pageSource)(nil)

// cacheRead bounds a read of the pods' cache, which may not be filled yet.
const cacheRead = time.Second

// State implements page.Source.
func (p *pageSource) State() page.State {
	s := page.State{
		Node: p.r.config.NodeName, Cluster: p.r.config.Cluster, Manager: p.manager,
		Partition: partitionOf(p.r.config, p.node.stock()),
	}
	if err := p.node.silence(); err != nil {
		s.Trouble = p.r.kind + " does not answer: " + err.Error()
	}
	_, s.Listed = p.r.jobs.named("")
	allocations := p.r.registry.snapshot()
	pods := p.pods()
	for key, members := range p.r.owners.all() {
		g := page.Gang{Key: key}
		had, ok := allocations[key]
		if ok {
			g.Allocation = p.allocation(had)
			delete(allocations, key)
		}
		for uid := range members {
			if pod := pods[uid]; pod != nil {
				g.Pods = append(g.Pods, page.Pod{Pod: pod, Slot: had.slot(uid)})
			}
		}
		if g.Allocation != nil || len(g.Pods) > 0 {
			s.Gangs = append(s.Gangs, g)
		}
	}
	for key, had := range allocations { // none of their pods is left
		s.Gangs = append(s.Gangs, page.Gang{Key: key, Allocation: p.allocation(had)})
	}
	return s
}

func (p *pageSource) pods() map[types.UID]*corev1.Pod {
	ctx, cancel := context.WithTimeout(context.Background(), cacheRead)
	defer cancel()
	list := &corev1.PodList{}
	if err := p.r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is not filled yet
	}
	pods := make(map[types.UID]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[list.Items[i].UID] = &list.Items[i]
	}
	return pods
}

func (p *pageSource) allocation(had heldAllocation) *page.Allocation {
	a := had.allocation
	shown := &page.Allocation{
		Name: a.gang.Allocation, Namespace: a.gang.Namespace, Owner: a.gang.Owner, User: a.gang.User, Generation: a.gang.Generation,
		Slots: a.gang.Slots, Submitted: had.job, Ended: had.ended, Reports: p.r.statuses.of(a),
	}
	jobs, _ := p.r.jobs.named(a.gang.Allocation)
	for _, j := range p.r.people.ofUser(jobs, a.gang.User) {
		if had.job != nil && j.ID == had.job.ID {
			shown.Job = &j
		}
	}
	return shown
}

// heldAllocation is an allocation, and what others than its gang's reconciliation may
// read of it.
type heldAllocation struct {
	allocation *allocation
	job        *spool.Job
	ended      *spool.Ended
	pods       map[types.UID]int
}

// slot is a pod's, -1 if it has none here.
func (h heldAllocation) slot(pod types.UID) int {
	if slot, ok := h.pods[pod]; ok {
		return slot
	}
	return -1
}

// snapshot is each gang's newest allocation.
func (r *registry) snapshot() map[string]heldAllocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]heldAllocation, len(r.byGang))
	for key, list := range r.byGang {
		if len(list) == 0 {
			continue
		}
		a := list[len(list)-1]
		all[key] = heldAllocation{allocation: a, job: a.job, ended: a.ended, pods: maps.Clone(a.pods)}
	}
	return all
}

// all are the known pods of all gangs.
func (o *owners) all() map[string]map[types.UID]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	gangs := make(map[string]map[types.UID]bool, len(o.byKey))
	for key, members := range o.byKey {
		gangs[key] = maps.Clone(members)
	}
	return gangs
}

// silence is why the workload manager counts as away, nil while it answers.
func (v *virtualNode) silence() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}
