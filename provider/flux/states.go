package flux

import (
	"cmp"
	"time"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/provider/wlm"
)

// stateMeaning is what one of Flux's states means for a gang.
type stateMeaning struct {
	state flux.State
	phase wlm.Phase
	// reason and explanation are for a job of which Flux itself gives no reason.
	reason, explanation string
}

// states is the table of job states. Source: RFC 21.
func states() []stateMeaning {
	return []stateMeaning{
		{flux.StateNew, wlm.PhaseQueued, "New", "Flux has just taken it"},
		{flux.StateDepend, wlm.PhaseQueued, "Dependency", "it waits for another job that it depends on"},
		{flux.StatePriority, wlm.PhaseQueued, "Priority", "Flux is finding its priority"},
		{flux.StateSched, wlm.PhaseQueued, "Resources", "it waits for resources to become free"},
		{flux.StateRun, wlm.PhaseRunning, "", ""},
		{flux.StateCleanup, wlm.PhaseEnding, "", ""},
		{flux.StateInactive, wlm.PhaseEnded, "", ""},
	}
}

func meaningOf(s flux.State) stateMeaning {
	for _, m := range states() {
		if m.state == s {
			return m
		}
	}
	return stateMeaning{state: s, phase: wlm.PhaseUnknown}
}

// outcomes is the table of results. Source: RFC 21 and flux-jobs(1).
func outcomes() map[flux.Outcome]wlm.Outcome {
	return map[flux.Outcome]wlm.Outcome{
		flux.Completed: wlm.OutcomeCompleted,
		flux.Failed:    wlm.OutcomeFailed,
		flux.Canceled:  wlm.OutcomeCancelled,
		flux.Timeout:   wlm.OutcomeTimeout,
	}
}

// exceptionMeaning is what an exception says of a job beyond its result.
type exceptionMeaning struct {
	outcome wlm.Outcome // none: what the result says
	meaning string
}

// exceptions is the table of the exceptions that end jobs. Source: RFC 21, and the types
// that flux-core and its schedulers were seen to raise.
func exceptions() map[string]exceptionMeaning {
	return map[string]exceptionMeaning{
		"alloc":          {"", "the scheduler could not give it what it asks for"},
		"cancel":         {"", "it was cancelled"},
		"dependency":     {"", "a job that it depends on has ended in another way, or is not known"},
		"exec":           {"", "its tasks could not be started or kept running"},
		"feasibility":    {"", "no nodes of the instance could ever hold it"},
		"fatal":          {"", "Flux gave it up"},
		"node-failure":   {wlm.OutcomeNodeFailure, "a node failed"},
		"preempt":        {wlm.OutcomePreempted, "a job with precedence took its resources"},
		"prolog":         {"", "the site's prolog failed"},
		"scheduler-down": {"", "the scheduler went away"},
		"timeout":        {"", "it reached its time limit"},
		"validate":       {"", "its jobspec is not valid"},
	}
}

// jobOf is a job as the caller sees it.
func jobOf(j flux.Job, user string) wlm.Job {
	m := meaningOf(j.State)
	w := wlm.Job{
		ID: j.ID.Plain(), Name: j.Name, User: user,
		State: j.State.String(), Phase: m.phase, Reason: m.reason, Explanation: m.explanation,
		Nodes: j.NodeList, Submitted: j.Submitted, Started: j.Run, Ended: j.Ended,
	}
	switch m.phase {
	case wlm.PhaseQueued:
		sched := j.Annotations.Sched
		if sched.TEstimate > 0 {
			w.ExpectedStart = time.Unix(int64(sched.TEstimate), 0).UTC()
		}
		switch {
		case j.State == flux.StateSched && j.Urgency == flux.UrgencyHold:
			w.Reason, w.Explanation = "Held", `its urgency is 0: raise it with "flux job urgency"`
		case sched.ReasonPending != "":
			w.Explanation = sched.ReasonPending
		}
	case wlm.PhaseRunning:
		w.LimitEnd = j.Expiration
	case wlm.PhaseEnded:
		w.State, w.Outcome = j.Result.String(), outcomes()[j.Result]
		if w.Outcome == wlm.OutcomeNone {
			w.Phase = wlm.PhaseUnknown // a way to end that this version does not know
		}
	}
	if x := j.Exception; x != nil && x.Severity == 0 {
		known := exceptions()[x.Type]
		w.Reason, w.Explanation = x.Type, cmp.Or(x.Note, known.meaning)
		if w.Outcome == wlm.OutcomeFailed {
			w.Outcome = cmp.Or(known.outcome, w.Outcome)
		}
	}
	return w
}
