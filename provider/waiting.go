package provider

import (
	"fmt"
	"time"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// jobWaiting explains a gang whose job exists while its pods do not run yet.
func jobWaiting(manager, id string, job *wlm.Job, reports []spool.Status, now time.Time) translate.Waiting {
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
		if job.Explanation != "" {
			message += ": " + job.Explanation
		}
		if at := expectedStart(job, now); at != "" {
			message += "; expected to start at " + at
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

// expectedStart is when a waiting job is expected to start, "" where nobody knows, or
// where the time has passed. It is as precise as it is near: the workload manager's plan moves
// each time it is made, and each change would be a write for each pod.
func expectedStart(job *wlm.Job, now time.Time) string {
	if job == nil || job.Phase != wlm.PhaseQueued || !job.ExpectedStart.After(now) {
		return ""
	}
	const day = 24 * time.Hour
	precision := time.Minute
	switch ahead := job.ExpectedStart.Sub(now); {
	case ahead > 30*day:
		precision = day
	case ahead > day:
		precision = time.Hour
	case ahead > 2*time.Hour:
		precision = 10 * time.Minute
	}
	return job.ExpectedStart.Add(precision / 2).Truncate(precision).UTC().Format(time.RFC3339)
}
