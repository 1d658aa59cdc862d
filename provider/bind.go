package provider

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// bind gives each pod its slot and takes in what the agents say of it.
//
// A pod that an agent already knows keeps its slot. The others get the slot of
// their role; one that is still held by a living pod is waited for.
func (s *state) bind() {
	holder := map[int]*podState{}
	for _, p := range s.pods {
		if p.before != nil && p.before.ended != nil && p.live() {
			// Never again: it may have run.
			p.ending, p.over = ptr.To(translate.AllocationEnding(*p.before.ended)), true
		}
		if slot, ok := s.startedSlot(p); ok {
			p.slot, p.started = slot, true
			s.observe(p)
			if !p.over {
				holder[slot] = p
			}
		}
	}
	free := func(k int) bool { return holder[k] == nil }
	for _, p := range s.pods {
		if p.started || !p.live() || p.deleting() || p.lost != nil {
			continue
		}
		if p.waiting = s.noPlace(); p.waiting.Reason != "" {
			continue
		}
		slot, ok := s.slotFor(p, free)
		if !ok {
			p.waiting = translate.Waiting{
				Reason:  wellknown.ReasonWaitingForSlot,
				Message: "all places of the gang are taken by pods that still run or stop",
			}
			continue
		}
		p.slot = slot
		holder[slot] = p
		if s.alloc != nil && s.alloc.live() && s.reports[slot].Agent.Instance != "" {
			p.agent = &s.reports[slot].Agent
		}
	}
}

// noPlace says why no pod of the gang can have a place now.
func (s *state) noPlace() translate.Waiting {
	switch {
	case s.alloc != nil && s.alloc.live() && s.alloc.gang.Release:
		// Its end would be theirs too; they are the next allocation's.
		return translate.Waiting{
			Reason:  wellknown.ReasonWaitingForSlot,
			Message: "the gang's earlier allocation " + s.alloc.name() + " is being given back",
		}
	case !s.limit.IsZero():
		return translate.Waiting{
			Reason:  wellknown.ReasonWaitingForSlot,
			Message: "the gang's allocation " + s.alloc.name() + " is about to reach its time limit; the next one will have a place",
		}
	case len(s.slots) == 0 && s.owner.absent != "":
		return translate.Waiting{Reason: wellknown.ReasonWaitingForGang, Message: s.owner.absent}
	case len(s.slots) == 0 && s.owner.gone:
		return translate.Waiting{Reason: wellknown.ReasonOwnerGone, Message: "the pod's owner is gone, and with it the gang's size"}
	case len(s.slots) == 0:
		return translate.Waiting{
			Reason:  wellknown.ReasonWaitingForSlot,
			Message: "the owner's pod templates select no place on this node",
		}
	}
	return translate.Waiting{}
}

// startedSlot finds the slot whose agent has the pod's orders.
func (s *state) startedSlot(p *podState) (int, bool) {
	if s.alloc == nil || !s.alloc.live() {
		return 0, false
	}
	for k, d := range s.alloc.desired {
		if d.PodUID == string(p.uid()) {
			return k, true
		}
	}
	return 0, false
}

func (s *state) observe(p *podState) {
	report := &s.reports[p.slot]
	if report.Agent.Instance != "" {
		p.agent = &report.Agent
	}
	if report.Pod != nil && report.Pod.UID == string(p.uid()) {
		p.observed = report.Pod
		if s.endedWithLost(p) {
			interrupted := *report.Pod
			interrupted.Interrupted = true
			p.observed = &interrupted
		}
		// What was interrupted is told when the allocation has ended: only then
		// is it known why.
		p.over = p.observed.Done && !p.observed.Interrupted
	}
}

func (s *state) slotFor(p *podState, free func(int) bool) (int, bool) {
	g := translate.Gang{Slots: s.slots, Waves: s.gang.Waves}
	if p.role.Group != "" {
		return g.SlotFor(p.role, free)
	}
	// A named gang's places bear their pods' names; any free one will do for
	// a pod that came later.
	byName := slices.IndexFunc(s.slots, func(slot translate.Slot) bool {
		return len(slot.Hosts) > 0 && slot.Hosts[0] == translate.ShortHostname(p.pod)
	})
	if byName >= 0 && free(byName) {
		return byName, true
	}
	return g.SlotFor(translate.Role{Index: -1}, free)
}

// stops decides which pods must stop: those that are being deleted and those
// that have run too long.
func (s *state) stops() {
	for _, p := range s.pods {
		own := ptr.Deref(p.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		if terminal(p.pod) && p.running() {
			// Somebody else has failed it (the pod garbage collector does, where
			// the Node was away); its process must go all the same.
			p.stop, p.grace = true, own
		}
		if terminal(p.pod) || p.rejection != nil {
			continue
		}
		if limit := p.pod.Spec.ActiveDeadlineSeconds; limit != nil && p.pod.Status.StartTime != nil {
			left := p.pod.Status.StartTime.Add(time.Duration(*limit) * time.Second).Sub(s.now)
			switch {
			case left > 0:
				s.within(left)
			case p.over && !s.wasStopped(p):
				// It had ended by itself before anybody looked.
			default:
				p.stop, p.grace = true, own
				p.ending = ptr.To(translate.DeadlineEnding())
			}
		}
		if p.deleting() {
			p.stop = true
			p.grace = ptr.Deref(p.pod.DeletionGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		}
	}
}

// wasStopped tells that the pod's agent has been asked to end it.
func (s *state) wasStopped(p *podState) bool {
	return p.started && s.alloc.desired[p.slot].Action == spool.ActionStop
}

// How often the text on waiting pods changes: a queue's reasons may flicker, a plan moves,
// and each change is a write for every pod of the gang. The longer a job has waited, the
// less its reason of the moment matters.
const (
	shownAtMost = 5 * time.Second
	shownAtLast = 30 * time.Second // of what has waited for five minutes
)

// waitingText is what the gang as a whole waits for, as shown on its pods.
func (s *state) waitingText() translate.Waiting {
	text, n := s.allocationWaiting(), s.note
	if text == n.shown {
		return text
	}
	if text.Reason == n.shown.Reason {
		lasts := shownAtMost
		if s.job != nil && !s.job.Submitted.IsZero() {
			lasts = min(max(lasts, s.now.Sub(s.job.Submitted)/10), shownAtLast)
		}
		if left := lasts - s.now.Sub(n.shownAt); left > 0 {
			s.within(left)
			return n.shown
		}
	} else if s.unlisted() {
		return text // the first listing tells more in a moment
	}
	n.shown, n.shownAt, n.expected = text, s.now, expectedStart(s.job, s.now)
	return text
}

// unlisted tells that no listing has had the gang's job yet.
func (s *state) unlisted() bool { return s.job == nil && s.alloc != nil && s.alloc.job != nil }

// unheard tells that the workload manager has not answered yet since this process began.
// Its first answer has the gang looked at.
func (s *state) unheard() bool { return s.unlisted() && s.listed.IsZero() }

// allocationWaiting is what the gang as a whole waits for.
func (s *state) allocationWaiting() translate.Waiting {
	switch a := s.alloc; {
	case s.trouble != "":
		return translate.Waiting{Reason: wellknown.ReasonSubmissionFailed, Message: s.trouble}
	case len(s.missing) > 0 && (a == nil || !a.live()):
		return translate.Waiting{Reason: wellknown.ReasonWaitingForGang, Message: s.missingMessage()}
	case a == nil || !a.live():
		return translate.Waiting{Reason: wellknown.ReasonSubmitting, Message: "the allocation is about to be submitted"}
	case a.job == nil && s.awaits != "":
		return translate.Waiting{Reason: wellknown.ReasonWaitingForDependency, Message: "the gang is not submitted yet: " + s.awaits}
	case a.job == nil && a.submitError != "":
		return translate.Waiting{Reason: wellknown.ReasonSubmissionFailed, Message: a.submitError}
	case a.job == nil:
		return translate.Waiting{Reason: wellknown.ReasonSubmitting, Message: "allocation " + a.name() + " is being submitted"}
	default:
		return jobWaiting(s.manager, a.job.ID, s.job, s.reports, s.now)
	}
}

func (s *state) missingMessage() string {
	first := 0
	for _, slot := range s.slots {
		if slot.First {
			first++
		}
	}
	message := fmt.Sprintf("%d of %d pods", first-len(s.missing), first)
	const named = 5
	for i, k := range s.missing {
		if i == named {
			return fmt.Sprintf("%s and %d more", message, len(s.missing)-named)
		}
		separator := ", "
		if i == 0 {
			separator = "; missing: "
		}
		message += separator + slotName(s.slots[k])
		if s.note.whereabouts != nil {
			message += " (" + cmp.Or(s.note.whereabouts[slotName(s.slots[k])], "it does not exist") + ")"
		}
	}
	return message
}

func slotName(slot translate.Slot) string {
	if len(slot.Hosts) > 0 {
		return slot.Hosts[0]
	}
	return fmt.Sprintf("pod %s", slot.Role)
}

// agentsMissing counts the slots whose agent has not reported.
func agentsMissing(reports []spool.Status) int {
	n := 0
	for _, r := range reports {
		if r.Agent.Instance == "" {
			n++
		}
	}
	return n
}

func bound(pods []*podState) map[int]types.UID {
	slots := map[int]types.UID{}
	for _, p := range pods {
		if p.slot >= 0 && p.live() && !p.deleting() {
			slots[p.slot] = p.uid()
		}
	}
	return slots
}
