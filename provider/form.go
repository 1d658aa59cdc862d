package provider

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// admit decides about pods that the node has not accepted yet, and reads the
// wishes of all. A pod that can never run here is refused at once, before it
// can hold up the rest of its gang.
func (s *state) admit(site hpcView) {
	for _, p := range s.pods {
		if terminal(p.pod) || p.deleting() || p.rejection != nil {
			continue
		}
		if p.rejection = cmp.Or(s.foreign(p), s.oversized(p)); p.rejection != nil {
			continue
		}
		wishes, rejection := s.parse(p, site)
		if rejection == nil {
			if p.rejection = s.notAllowed(p, wishes); p.rejection != nil {
				continue
			}
			rejection = s.add(p, wishes)
		}
		if p.admitted() {
			p.rejection = p.claimRejection(site.site) // what was accepted once stays so: it may run by now
			continue
		}
		if rejection == nil {
			of := site.of(wishes.Partition)
			of.Claims, of.Runtime = p.claims, site.forPod(wishes).Runtime
			rejection = translate.Admit(p.pod, of)
		}
		if rejection == nil {
			rejection = s.bounded()
		}
		if rejection == nil {
			rejection = s.askable(wishes, site)
		}
		p.rejection = rejection
	}
	s.wishes = s.identity.Complete(s.wishes)
}

// parse is what a pod's annotations and its form ask for.
func (s *state) parse(p *podState, site hpcView) (translate.Wishes, *translate.Rejection) {
	offer := site.offer()
	if p.admitted() {
		offer.Partitions, offer.GPUTypes, offer.Runtimes = nil, nil, nil // the workload manager's to judge, should they be gone
	}
	wishes, rejection := translate.ParseWishes(p.pod.Annotations, s.gang.Annotations, offer)
	if translate.OnHost(p.pod) {
		wishes.Runtime = translate.RuntimeHost
	}
	if wishes.Nice == 0 {
		wishes.Nice = site.niceness[p.pod.Spec.PriorityClassName]
	}
	return wishes, rejection
}

// notAllowed refuses what the gang's user may not ask for, from an accepted pod too:
// annotations can be changed after that, and must not get what the pod could not have had.
func (s *state) notAllowed(p *podState, wishes translate.Wishes) *translate.Rejection {
	why := s.identity.Refuse(wishes)
	if why == "" || s.holds(p) {
		return nil
	}
	return &translate.Rejection{Reason: wellknown.ReasonNotAllowed, Field: "metadata.annotations", Message: why}
}

// add joins a pod's wishes to the gang's. One that contradicts those of the pods before it
// cannot be granted.
func (s *state) add(p *podState, wishes translate.Wishes) *translate.Rejection {
	p.wishes = wishes
	merged, conflict := s.wishes.Merge(wishes)
	if conflict != "" {
		return &translate.Rejection{
			Reason: wellknown.ReasonBadAnnotation,
			Field:  "metadata.annotations",
			Message: fmt.Sprintf("%s/%s is not the same as on the gang's other pods, and a gang is one job; give all of them the same",
				wellknown.Domain, conflict),
		}
	}
	s.wishes = merged
	return nil
}

// askable refuses pods whose wishes the workload manager has nothing for.
func (s *state) askable(wishes translate.Wishes, site hpcView) *translate.Rejection {
	if site.check == nil {
		return nil
	}
	// The program and its directory are none of the user's.
	err := site.check(translate.NewRequest("", s.gang, wishes, "/", "/"))
	if err == nil {
		return nil
	}
	return &translate.Rejection{Reason: wellknown.ReasonBadAnnotation, Field: "metadata.annotations", Message: err.Error()}
}

// oversized refuses a pod of a gang that is larger than any may be. What has a place in an
// allocation keeps it.
func (s *state) oversized(p *podState) *translate.Rejection {
	if s.holds(p) {
		return nil
	}
	return s.gang.TooLarge()
}

// holds tells that a pod, or its gang, has been given what it asked for.
func (s *state) holds(p *podState) bool {
	return p.before != nil || s.alloc != nil && s.alloc.live()
}

// bounded refuses the pods of a gang that is larger than its user's may be.
func (s *state) bounded() *translate.Rejection {
	if rejection := s.gang.TooLarge(); rejection != nil {
		return rejection
	}
	gpus := 0
	for _, slot := range s.gang.Slots {
		gpus += slot.GPUs
	}
	why := s.identity.Exceeds(int(s.gang.Size()), gpus)
	if why == "" {
		return nil
	}
	return &translate.Rejection{Reason: wellknown.ReasonNotAllowed, Field: "spec", Message: why}
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
	return len(bound(s.pods)) > 0 && len(s.missing) == 0 && !s.owner.done() && s.ending == nil && !s.unusableClaims()
}
