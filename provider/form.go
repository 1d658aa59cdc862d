package provider

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// admit decides about pods that the node has not accepted yet, and reads the
// wishes of all. A pod that can never run here is refused at once, before it
// can hold up the rest of its gang.
func (s *state) admit(site siteView) {
	for _, p := range s.pods {
		if terminal(p.pod) || p.deleting() {
			continue
		}
		wishes, rejection := s.wish(p, site)
		if p.accepted() || p.rejection != nil {
			continue // what was accepted once stays so: it may run by now
		}
		if rejection == nil {
			rejection = translate.Admit(p.pod, site.of(wishes.Partition))
		}
		p.rejection = rejection
	}
}

// wish adds a pod's wishes to the gang's. One that contradicts those of the
// pods before it cannot be granted.
func (s *state) wish(p *podState, site siteView) (translate.Wishes, *translate.Rejection) {
	wishes, rejection := translate.ParseWishes(p.pod.Annotations, s.gang.Annotations, site.partitions())
	if rejection != nil {
		return wishes, rejection
	}
	p.wishes = wishes
	merged, conflict := s.wishes.Merge(wishes)
	if conflict != "" {
		return wishes, &translate.Rejection{
			Reason: wellknown.ReasonBadAnnotation,
			Field:  "metadata.annotations",
			Message: fmt.Sprintf("%s/%s is not the same as on the gang's other pods, and a gang is one job; give all of them the same",
				wellknown.Domain, conflict),
		}
	}
	s.wishes = merged
	return wishes, nil
}

// form finds the first slots that have no pod. Slots count as filled only by
// pods that are to run.
func (s *state) form() {
	filled := map[int]bool{}
	for slot := range bound(s.pods) {
		filled[slot] = true
	}
	for _, p := range s.pods {
		// A place whose pod has done its work gets no other pod: the gang is
		// whole without it.
		if p.pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		if p.before != nil {
			filled[p.before.slot] = true
		} else if slot, ok := s.slotFor(p, func(k int) bool { return !filled[k] }); ok {
			filled[slot] = true
		}
	}
	s.missing = translate.Gang{Slots: s.slots}.Missing(func(k int) bool { return filled[k] })
}

// mustSubmit tells whether the gang has all it needs for an allocation and has
// none, or has one whose submission has not been answered yet.
func (s *state) mustSubmit() bool {
	if s.alloc != nil && s.alloc.live() {
		return s.alloc.job == nil && !s.alloc.gang.Release
	}
	return len(bound(s.pods)) > 0 && len(s.missing) == 0 && !s.owner.done() && s.ending == nil
}

// jobWaiting explains a gang whose job exists while its pods do not run yet.
func jobWaiting(manager, id string, job *wlm.Job, reports []spool.Status) translate.Waiting {
	if job == nil {
		return translate.Waiting{
			Reason:  wellknown.ReasonQueued,
			Message: fmt.Sprintf("%s job %s is submitted", manager, id),
		}
	}
	message := fmt.Sprintf("%s job %s is %s", manager, id, job.State)
	if job.Reason != "" && job.Reason != "None" {
		message += " (" + job.Reason + ")"
	}
	if job.Phase == wlm.PhaseQueued {
		if !job.ExpectedStart.IsZero() {
			message += ", expected to start at " + job.ExpectedStart.Format(time.RFC3339)
		}
		return translate.Waiting{Reason: wellknown.ReasonQueued, Message: message}
	}
	if job.Nodes != "" {
		message += " on " + job.Nodes
	}
	if agentsMissing(reports) > 0 {
		message += ", waiting for its agents to report" // no number: each change would be a write for each pod
	}
	return translate.Waiting{Reason: wellknown.ReasonStarting, Message: message}
}

// siteView is what admission needs to know of the HPC side at one moment.
type siteView struct {
	site      translate.Site
	inventory wlm.Inventory
	partition string   // the configured default, or the manager's
	allowed   []string // those that pods may name; empty for all
}

func newSiteView(c Config, inv wlm.Inventory) siteView {
	return siteView{
		site:      translate.Site{GPUResource: corev1.ResourceName(c.GPUResource), HostPaths: c.HostPaths},
		inventory: inv, partition: c.Partition, allowed: c.Partitions,
	}
}

// partitions are the names that a pod may ask for.
func (v siteView) partitions() []string {
	if len(v.allowed) > 0 {
		return v.allowed
	}
	names := make([]string, 0, len(v.inventory.Partitions))
	for _, p := range v.inventory.Partitions {
		names = append(names, p.Name)
	}
	return names
}

// of narrows the site to the nodes of a partition. A node that is down today
// counts: it may be up when the job's turn comes.
func (v siteView) of(partition string) translate.Site {
	site := v.site
	site.Nodes = v.nodes(partition)
	return site
}

// node is what an HPC node has, as limits that a container does not set count;
// nothing where the node is not known.
func (v siteView) node(name string) corev1.ResourceList {
	for _, p := range v.inventory.Partitions {
		for _, n := range p.Nodes {
			if n.Name == name {
				return corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewQuantity(int64(n.CPUs), resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(n.MemoryMiB<<20, resource.BinarySI),
				}
			}
		}
	}
	return nil
}

// nodes is what each node of a partition has; "" is the default partition.
func (v siteView) nodes(partition string) []translate.Resources {
	if partition == "" {
		partition = v.partition
	}
	var nodes []translate.Resources
	for _, p := range v.inventory.Partitions {
		if p.Name != partition && (partition != "" || !p.Default) {
			continue
		}
		for _, n := range p.Nodes {
			nodes = append(nodes, translate.Resources{CPUs: n.CPUs, MemoryMiB: n.MemoryMiB, GPUs: n.GPUs})
		}
	}
	return nodes
}
