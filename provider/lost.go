package provider

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// lostPlace is where a pod ran of whose allocation the spool knows nothing any more:
// somebody has removed its directory, or the node has another spool.
type lostPlace struct {
	allocation string
	// jobs are those of the allocation's name, as of the query at listed.
	jobs   []wlm.Job
	listed time.Time
}

// lostPlaceOf finds where a pod ran that has no place. Its annotations tell.
func (r *Reconciler) lostPlaceOf(p *podState) *lostPlace {
	pod := p.pod
	name := pod.Annotations[wellknown.AnnotationAllocation]
	if name == "" || terminal(pod) || !r.registry.names.Own(name) || !everRan(pod) || r.registry.has(name) {
		return nil
	}
	l := &lostPlace{allocation: name}
	l.jobs, l.listed = r.jobs.named(name)
	l.jobs = r.people.ofUser(l.jobs, p.identity.User) // the annotation is the pod's author's
	return l
}

// everRan tells that something of the pod was started, as far as its status knows.
func everRan(pod *corev1.Pod) bool {
	for _, c := range allStatuses(pod) {
		if c.ContainerID != "" {
			return true
		}
	}
	return false
}

// active are the jobs that may still run the pod.
func (l *lostPlace) active() []wlm.Job {
	var active []wlm.Job
	for _, j := range l.jobs {
		if j.Phase != wlm.PhaseEnded {
			active = append(active, j)
		}
	}
	return active
}

// lose ends the pods whose place is lost, once nothing can run them any more: never
// again are they given to an allocation.
func (s *state) lose(interval time.Duration) {
	for _, p := range s.pods {
		if p.lost == nil || !p.live() {
			continue
		}
		if s.note.lostSeen.IsZero() {
			s.note.lostSeen = s.now
		}
		s.within(interval)
		p.waiting = translate.Waiting{Reason: wellknown.ReasonAllocationLost, Message: "the spool no longer knows the pod's allocation " + p.lost.allocation}
		known := p.lost.listed.After(s.note.lostSeen.Add(lostAfter * interval))
		if !known || len(p.lost.active()) > 0 {
			continue
		}
		p.ending = ptr.To(translate.AllocationEnding(spool.Ended{
			Outcome: "Lost", Message: "the spool no longer knows the pod's allocation " + p.lost.allocation + ", and its job has ended",
		}))
		p.over = true
	}
}

// pursueLost cancels the jobs of pods whose place is lost: nobody can tell their
// agents anything.
func (r *Reconciler) pursueLost(ctx context.Context, s *state) {
	for _, p := range s.pods {
		if p.lost == nil || !p.live() {
			continue
		}
		for _, j := range p.lost.active() {
			r.pursue(ctx, j, "the spool no longer knows its allocation")
		}
	}
}
