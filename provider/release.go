package provider

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// settle is how long after a job's end the agents' last words may still be on
// their way through a shared filesystem.
const settle = 2 * time.Second

// lostAfter is how many successive listings must lack a job before it counts
// as gone; one may have been made before the job was known.
const lostAfter = 3

// end notices that the workload manager says the allocation has ended, and
// decides what becomes of the pods that have not ended by themselves. What is
// unknown, or was not asked because a query failed, is never an end.
func (s *state) end(manager string) {
	a := s.alloc
	if a == nil || !a.live() || a.job == nil {
		return
	}
	outcome, detail := s.outcome()
	if s.cut {
		s.within(time.Second)
		return // what the agents have said last must be heard first
	}
	if outcome == "" {
		a.endSeen = time.Time{}
		return
	}
	if a.endSeen.IsZero() {
		a.endSeen = s.now
	}
	if left := settle - s.now.Sub(a.endSeen); left > 0 && s.anyRunning() {
		s.within(left)
		return
	}
	if s.readLastWords(); s.cut {
		s.within(time.Second)
		return
	}
	s.ending = &spool.Ended{Outcome: outcome, At: s.now, Message: s.endedMessage(manager, outcome, detail)}
	for _, p := range s.pods {
		if terminal(p.pod) {
			p.over = true // whoever has failed it
		}
		if !p.live() || p.slot < 0 {
			continue
		}
		if endedByItself(p) {
			done := *p.observed
			done.Done = true
			p.observed, p.over = &done, true // its agent died before it could say so
			continue
		}
		if !p.started && !p.deleting() && (outcome == outcomeVoid || len(a.pods) > 0) {
			continue // who had not started when others ran waits for the next allocation
		}
		if p.deleting() && !p.started {
			p.ending = ptr.To(translate.StoppedEnding())
		} else if p.ending == nil {
			p.ending = ptr.To(translate.AllocationEnding(*s.ending))
		}
		p.over = true
	}
}

// endedByItself tells that all of a pod's containers had ended for good, and not by
// a signal as it comes with an allocation's end, when its agent last spoke.
func endedByItself(p *podState) bool {
	if p.observed == nil || p.observed.Interrupted || len(p.observed.Containers) < len(p.pod.Spec.Containers) {
		return false
	}
	for _, c := range p.observed.Containers {
		end := c.State.Terminated
		if end == nil || endedBySignal(end.ExitCode) {
			return false
		}
		if startsAgain(p.pod, c.Name, end.ExitCode) {
			return false
		}
	}
	return true
}

// startsAgain tells whether a container is started again after such an end: by the
// first of its own rules that matches, else by its own policy, else by the pod's.
func startsAgain(pod *corev1.Pod, container string, code int32) bool {
	policy := pod.Spec.RestartPolicy
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i >= 0 {
		c := &pod.Spec.Containers[i]
		if _, ruled := spool.RestartAction(c.RestartPolicy, c.RestartPolicyRules, code); ruled {
			return true // so do all actions that there are
		}
		if c.RestartPolicy != nil {
			policy = corev1.RestartPolicy(*c.RestartPolicy)
		}
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// readLastWords reads the status of each pod that has not ended from the spool
// itself: what was last seen may be older than the job's end.
func (s *state) readLastWords() {
	for _, p := range s.pods {
		if !p.running() {
			continue
		}
		var status spool.Status
		if s.read(s.alloc.dir.Status(p.slot), &status) {
			s.reports[p.slot] = status
			s.observe(p)
		}
	}
}

// outcome is how the job ended, or "" while it has not as far as anybody knows.
func (s *state) outcome() (outcome, detail string) {
	a := s.alloc
	if s.job != nil {
		a.missing = 0
		return s.jobOutcome()
	}
	if s.listed.After(a.job.Submitted) && s.listed.After(a.missingSeen) {
		a.missing, a.missingSeen = a.missing+1, s.listed
	}
	if a.missing < lostAfter {
		a.lostSince = time.Time{}
		return "", ""
	}
	return s.lostOutcome()
}

// outcomeRequeued is that of a job that ran and was put back into the queue. It runs
// nothing there: a gang is run once in an allocation, and its launcher knows that.
const outcomeRequeued = "Requeued"

// jobOutcome is how a listed job ended. One that is in the queue while its launcher has
// said its last word was requeued. Without that word it may still run, and the workload
// manager have forgotten that it has started it.
func (s *state) jobOutcome() (outcome, detail string) {
	if s.job.Phase != wlm.PhaseQueued && s.job.Phase != wlm.PhaseEnded {
		return "", ""
	}
	var result spool.Result
	launched := s.read(s.alloc.dir.Result(), &result)
	// A listing from before the job's end does not tell that it is in the queue again.
	queuedAgain := s.job.Phase == wlm.PhaseQueued && s.listed.After(result.Finished)
	switch {
	case launched && (queuedAgain || result.Requeued):
		return outcomeRequeued, "it was put back into the queue, and a gang's job is not run again"
	case s.job.Phase == wlm.PhaseQueued:
		return "", ""
	}
	if result.Message == spool.AskedToEnd {
		return string(s.job.Outcome), cmp.Or(s.job.Explanation, result.Message)
	}
	return string(s.job.Outcome), cmp.Or(result.Message, s.job.Explanation)
}

// lostPatience is how long the agents of a job that the workload manager has
// forgotten have to end. They are asked to through the spool.
const lostPatience = time.Minute

// outcomeVoid is that of a job that vanished before it ran: the gang is as if
// it had never been submitted.
const outcomeVoid = "Void"

// lostOutcome is how a job ended that the workload manager knows no more.
func (s *state) lostOutcome() (outcome, detail string) {
	a := s.alloc
	var result spool.Result
	if s.read(a.dir.Result(), &result) && a.lostSince.IsZero() {
		if result.ExitCode == 0 {
			return string(wlm.OutcomeCompleted), result.Message
		}
		return string(wlm.OutcomeFailed), result.Message
	}
	var claim spool.Claim
	claimed, err := s.file(a.dir.Claim(), &claim)
	if s.cut = s.cut || errors.Is(err, site.ErrUnreachable); s.cut {
		return "", ""
	}
	if err == nil && !claimed {
		return outcomeVoid, "it is no longer known, and it never ran"
	}
	if a.lostSince.IsZero() {
		a.lostSince = s.now
	}
	if left := lostPatience - s.now.Sub(a.lostSince); left > 0 && s.anyUnfinished() {
		s.abandon = true
		s.within(time.Second)
		return "", ""
	}
	return "Lost", "it is no longer known"
}

// endedWithLost tells that a pod ended by a signal because its job is lost: its agents
// were asked to end, and nobody asked for the pod's own end.
func (s *state) endedWithLost(p *podState) bool {
	if s.alloc.lostSince.IsZero() || s.alloc.desired[p.slot].Action == spool.ActionStop {
		return false
	}
	return slices.ContainsFunc(p.observed.Containers, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && endedBySignal(c.State.Terminated.ExitCode)
	})
}

// endedBySignal tells that an exit code is that of a process which a stop has ended.
func endedBySignal(code int32) bool {
	return code == 128+int32(unix.SIGTERM) || code == 128+int32(unix.SIGKILL)
}

// anyUnfinished tells that an agent has not reported the end of its pod.
func (s *state) anyUnfinished() bool {
	return slices.ContainsFunc(s.pods, func(p *podState) bool {
		return p.running() && !terminal(p.pod) && (p.observed == nil || !p.observed.Done)
	})
}

func (s *state) anyRunning() bool {
	for _, p := range s.pods {
		if p.started && !p.over && !terminal(p.pod) {
			return true
		}
	}
	return false
}

func (s *state) endedMessage(manager, outcome, detail string) string {
	if s.job == nil || outcome == outcomeRequeued { // its state is that of its place in the queue
		return fmt.Sprintf("%s job %s: %s", manager, s.alloc.job.ID, cmp.Or(detail, "it is no longer known"))
	}
	return translate.EndedMessage(manager, s.job.ID, s.job.State, s.job.Reason, detail)
}

// release decides whether the allocation is to be given back: when nothing of
// the gang lives and nothing will come, or nothing has come for the grace
// period.
func (s *state) release(grace time.Duration) (give bool) {
	a := s.alloc
	if a == nil || !a.live() || s.ending != nil {
		return false
	}
	if a.gang.Release || s.stuck() {
		return true
	}
	for _, p := range s.pods {
		// A pod that is deleted before it has started needs no allocation.
		if p.running() || (p.live() && !p.started && !p.deleting()) {
			a.idleSince = time.Time{}
			return false
		}
	}
	if a.idleSince.IsZero() {
		a.idleSince = s.now
	}
	if s.owner.done() || !s.refills() || s.allSucceeded() {
		return true
	}
	left := grace - s.now.Sub(a.idleSince)
	if left > 0 {
		s.within(left)
	}
	return left <= 0
}

// stuckAfter is how long after the end of its grace period a pod may still be
// stopping before its agent counts as dead.
const stuckAfter = time.Minute

// stuck tells that an agent does not stop a pod that should be gone by now.
// Then the whole allocation is given back: its end is the workload manager's
// to see to, and to confirm. An agent that cannot be told is no better than one
// that does not listen (see orderStop).
func (s *state) stuck() bool {
	for _, p := range s.pods {
		since, known := s.alloc.stopping[p.slot]
		if !p.running() || !p.stop || !known && s.alloc.desired[p.slot].Action != spool.ActionStop {
			continue
		}
		if !known {
			since = s.now
			s.alloc.stopping[p.slot] = since
		}
		left := since.Add(time.Duration(p.grace)*time.Second + stuckAfter).Sub(s.now)
		if left <= 0 {
			return true
		}
		s.within(left)
	}
	return false
}

// refills tells whether the owner may bring new pods into the slots. A gang
// that is known from its allocation alone has lost its owner.
func (s *state) refills() bool { return s.gang.Refills || s.alloc.gang.Refills }

// allSucceeded tells that every slot's pod has done its work.
func (s *state) allSucceeded() bool {
	if s.gang.Waves {
		return false
	}
	done := map[int]bool{}
	for _, p := range s.pods {
		succeeded := p.pod.Status.Phase == corev1.PodSucceeded || (p.over && p.observed != nil && succeeded(p.observed))
		if succeeded && p.started {
			done[p.slot] = true
		}
	}
	return len(done) == len(s.slots)
}

func succeeded(observed *spool.PodStatus) bool {
	for _, c := range observed.Containers {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return false
		}
	}
	return observed.Reason == ""
}

// unstarted finishes pods that are deleted before they have started. They need
// not wait for anything, unless they are the last of their gang: then the job
// must be gone first, or nobody would be left to see that it goes.
func (s *state) unstarted(releasing bool) {
	if releasing && s.alloc.live() && s.ending == nil {
		return
	}
	for _, p := range s.pods {
		if p.live() && p.deleting() && !p.started && p.lost == nil {
			p.ending = ptr.To(translate.StoppedEnding())
			p.over = true
		}
	}
}
