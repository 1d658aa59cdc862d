package provider

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/observe/tracing"
	"github.com/gangline/gangline/provider/spool"
)

// starting is when what of a gang's start happened, as far as this process has seen it:
// for its measures and its trace alone.
type starting struct {
	seen map[types.UID]time.Time
	// complete is when the gang was first free to be submitted, reported when all agents
	// were there.
	complete, reported time.Time
	ordered            map[types.UID]time.Time
	// running are the pods that have left Pending and are in no trace yet.
	running map[types.UID]time.Time
	// queued tells that the time in the queue was measured.
	queued bool
	// ended tells that the trace of the allocation's end was sent.
	ended bool
	// passing is since when pods that have an agent wait for their start.
	passing map[types.UID]time.Time
	// told is the newest report of each slot that the pods' statuses were made of.
	told map[int]time.Time
}

func setTime[K comparable](times *map[K]time.Time, key K, at time.Time) {
	if *times == nil {
		*times = map[K]time.Time{}
	}
	(*times)[key] = at
}

// look notes which pods there are, and whether they may be submitted.
func (t *starting) look(s *state) {
	for _, p := range s.pods {
		if _, known := t.seen[p.uid()]; known {
			continue
		}
		at := s.now
		if p.accepted() { // by an earlier process
			at = boundAt(p.pod)
		}
		setTime(&t.seen, p.uid(), at)
	}
	switch {
	case s.mustSubmit() && t.complete.IsZero():
		t.complete = s.now
	case s.alloc == nil && !s.mustSubmit():
		t.complete = time.Time{}
	}
}

// queueTime is how long the job has waited, told once: agents report before a listing shows
// that their job has started.
func (t *starting) queueTime(s *state) (time.Duration, bool) {
	if t.reported.IsZero() || t.queued || s.job == nil || s.job.Started.IsZero() || s.job.Submitted.IsZero() {
		return 0, false
	}
	t.queued = true
	return s.job.Started.Sub(s.job.Submitted), true
}

// over forgets what was noted of an allocation that has ended.
func (t *starting) over() {
	*t = starting{seen: t.seen}
}

// boundAt is when a pod was bound to its node.
func boundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// wrote takes in that a pod's status was written: what the write tells of the pod's start,
// of its containers' restarts, and how old the news are.
func (r *Reconciler) wrote(s *state, p *podState, before, after *corev1.Pod) {
	r.metrics.ContainersRestarted(restarts(after) - restarts(before))
	if s.alloc == nil || p.slot < 0 || p.observed == nil {
		return
	}
	t, now := &s.note.start, time.Now()
	if at := s.writtenAt(p.slot); at.After(r.began) && at.After(t.told[p.slot]) {
		r.metrics.Reported(now.Sub(at))
	}
	if pending(before) && !pending(after) {
		setTime(&t.running, p.uid(), now)
		r.metrics.Started(now.Sub(t.seen[p.uid()]))
		if !t.reported.IsZero() {
			r.metrics.Launched(now.Sub(t.reported))
		}
	}
}

func pending(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodPending || pod.Status.Phase == ""
}

func restarts(pod *corev1.Pod) int {
	n := 0
	for _, c := range allStatuses(pod) {
		n += int(c.RestartCount)
	}
	return n
}

// writtenAt is when a slot's last report was written, zero where there is none.
func (s *state) writtenAt(slot int) time.Time {
	if slot < 0 || slot >= len(s.toldAt) {
		return time.Time{}
	}
	return s.toldAt[slot]
}

// trace sends the trace of a start that is over: every pod that has a place runs or has
// ended, or the allocation has.
func (r *Reconciler) trace(s *state) {
	t, a := &s.note.start, s.alloc
	if r.tracer == nil || a == nil || a.job == nil || t.ended {
		return
	}
	started := func(p *podState) bool { _, ok := t.running[p.uid()]; return ok }
	if s.ending == nil && (len(t.running) == 0 || slices.ContainsFunc(s.pods, func(p *podState) bool {
		return p.slot >= 0 && p.live() && pending(p.pod) && !started(p)
	})) {
		return
	}
	start := tracing.Start{
		Gang: s.key, Owner: a.gang.Owner, Namespace: a.gang.Namespace, VirtualNode: r.config.NodeName,
		Allocation: a.name(), Job: a.job.ID, Slots: len(a.gang.Slots),
		Complete: t.complete, Submitted: a.job.Submitted, Reported: t.reported, Over: s.now,
	}
	if s.job != nil {
		start.Begun = s.job.Started
	}
	if s.ending != nil {
		start.Failure = s.ending.Message
	}
	for k, report := range s.reports {
		if report.Agent.Instance != "" {
			start.Agents = append(start.Agents, tracing.Agent{Slot: k, Node: report.Agent.Node, Started: report.Agent.Started})
		}
	}
	for _, p := range s.pods {
		if p.slot >= 0 && (started(p) || s.ending != nil && pending(p.pod)) {
			start.Pods = append(start.Pods, tracedPod(s, p))
		}
	}
	t.running, t.ended = nil, s.ending != nil
	if len(start.Pods) > 0 {
		if !slices.ContainsFunc(start.Pods, func(p tracing.Pod) bool { return p.Running.IsZero() }) {
			start.Failure = "" // it ended later
		}
		r.tracer.Record(start)
	}
}

// tracedPod is what is known of one pod's start.
func tracedPod(s *state, p *podState) tracing.Pod {
	t := s.note.start
	pod := tracing.Pod{
		Name: p.pod.Name, UID: string(p.uid()), Slot: p.slot, Node: s.reports[p.slot].Agent.Node,
		Seen: t.seen[p.uid()], Ordered: t.ordered[p.uid()], Running: t.running[p.uid()],
	}
	if p.observed == nil {
		return pod
	}
	pod.Taken, pod.Started, pod.Told = p.observed.Taken, p.observed.Started, s.writtenAt(p.slot)
	for _, c := range p.observed.InitContainers {
		if end := c.State.Terminated; end != nil {
			pod.InitContainers = append(pod.InitContainers, tracing.Run{
				Container: c.Name, From: end.StartedAt.Time, To: end.FinishedAt.Time, ExitCode: end.ExitCode, RestartsSoFar: c.RestartCount,
			})
		}
	}
	return pod
}

// agentStates counts the agents that have reported, by state.
func agentStates(reports []spool.Status, count map[string]int, idle, running string) {
	for _, s := range reports {
		switch {
		case s.Agent.Instance == "":
		case s.Pod != nil && !s.Pod.Done:
			count[running]++
		default:
			count[idle]++
		}
	}
}
