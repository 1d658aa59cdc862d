package provider

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

const (
	// limitMargin is what is left of the time limit when the pods' grace period ends:
	// for the agents' last words, and for the job's own end.
	limitMargin = 2 * time.Second
	// orderTime is what an order to stop may take on its way, beside a grace period.
	orderTime = 3 * time.Second
)

// announceLimit finds out whether the allocation's time limit is so near that the gang's
// pods are to be stopped. The workload manager's listing tells when the limit is, also
// after an administrator has moved it; its own signals would reach the pods later, with
// less time, and only those that its steps run.
func (s *state) announceLimit(site time.Duration) {
	if s.alloc == nil || !s.alloc.live() || s.job == nil || s.job.Phase != wlm.PhaseRunning || s.job.LimitEnd.IsZero() {
		return
	}
	warning := s.limitWarning(site)
	if warning < 0 {
		return
	}
	if left := warnAt(*s.job, warning).Sub(s.now); left > 0 {
		s.within(left)
		return
	}
	s.limit = s.job.LimitEnd
}

// limitWarning is how long before its time limit the gang is stopped, below 0 for not at
// all: as its pods wish, or as the site has it, or the longest grace period of them.
func (s *state) limitWarning(site time.Duration) time.Duration {
	if s.wishes.TimeLimitWarning != 0 {
		return s.wishes.TimeLimitWarning
	}
	if site != 0 {
		return site
	}
	var longest time.Duration
	for _, p := range s.pods {
		longest = max(longest, gracePeriod(p.pod))
	}
	return longest + limitMargin + orderTime
}

// warnAt is when the pods of a job are told that its limit is near: half of its time is
// theirs in any case.
func warnAt(job wlm.Job, warning time.Duration) time.Time {
	at := job.LimitEnd.Add(-warning)
	if half := job.Started.Add(job.LimitEnd.Sub(job.Started) / 2); at.Before(half) {
		return half
	}
	return at
}

func gracePeriod(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
}

// stopForLimit stops the pods of a gang whose time is up, with all the time that is left
// to save their work. What has ended since with exit code 0 has succeeded; what has not
// has exceeded the limit.
func (s *state) stopForLimit() {
	for _, p := range s.pods {
		if terminal(p.pod) || p.rejection != nil || p.deleting() || p.stop || !p.started {
			continue
		}
		switch {
		case p.over:
			// Nothing but its limit stops a pod that was not deleted. (That may have
			// been seen by an earlier life of this process.)
			if s.alloc != nil && s.wasStopped(p) && p.ending == nil && (p.observed == nil || !succeeded(p.observed)) {
				p.ending = ptr.To(translate.TimeLimitEnding())
			}
		case !s.limit.IsZero():
			left := s.limit.Sub(s.now) - limitMargin
			p.stop, p.grace = true, max(1, int64(left/time.Second))
			p.ending = ptr.To(translate.TimeLimitEnding())
			if d := s.alloc.desired[p.slot]; s.wasStopped(p) {
				p.grace = d.GraceSeconds // once is enough
			}
		case s.wasStopped(p):
			// The limit has been moved, too late for this one.
			p.stop, p.grace = true, s.alloc.desired[p.slot].GraceSeconds
			p.ending = ptr.To(translate.TimeLimitEnding())
		}
	}
}

// spent tells that the allocation's time is up and nothing of the gang runs in it any
// more: pods that come now need another one.
func (s *state) spent() bool {
	return !s.limit.IsZero() && !s.anyRunning() && len(s.alloc.pods) > 0
}

// tellLimit tells the pods once that they are stopped for the time limit's sake.
func (r *Reconciler) tellLimit(s *state) {
	if s.limit.IsZero() || s.note.limitTold == s.alloc.name() || !s.anyRunning() {
		return
	}
	s.note.limitTold = s.alloc.name()
	r.eventAll(s, corev1.EventTypeNormal, "TimeLimitNear",
		"%s job %s reaches its time limit at %s: the pods are stopped now, so that they can save their work",
		r.kind, s.job.ID, s.limit.UTC().Format(time.RFC3339))
}
