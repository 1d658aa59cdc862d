package local

import (
	"strings"
	"time"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// job is one job as it is kept in its file.
type job struct {
	ID        string            `json:"id"`
	User      string            `json:"user"`
	Request   translate.Request `json:"request"`
	Submitted time.Time         `json:"submitted"`

	// Started, Boot and Places are written together, before any task is
	// started. Boot is the machine's boot id then.
	Started time.Time   `json:"started,omitzero"`
	Boot    string      `json:"boot,omitempty"`
	Places  []placement `json:"places,omitempty"`

	// Stop is set when the job must end before its agents do by themselves.
	Stop *stop `json:"stop,omitempty"`

	Ended   time.Time   `json:"ended,omitzero"`
	Outcome wlm.Outcome `json:"outcome,omitempty"`
	Reason  string      `json:"reason,omitempty"`

	// What the manager at work has done about the job; it is not kept.
	claimed   bool
	signalled bool
	full      time.Time    // since when there is no room in the spool for what is to be written
	attempts  map[int]bool // by task: true once its starter has ended
	verdict   *verdict     // once all its tasks have ended
}

// verdict is how a job ends whose tasks have ended.
type verdict struct {
	result  spool.Result
	outcome wlm.Outcome
	reason  string
}

// stop is why a job is ended by force, and since when it is.
type stop struct {
	Outcome wlm.Outcome `json:"outcome"`
	Reason  string      `json:"reason"`
	Since   time.Time   `json:"since"`
}

func (j *job) phase() wlm.Phase {
	switch {
	case !j.Ended.IsZero():
		return wlm.PhaseEnded
	case j.Started.IsZero():
		return wlm.PhaseQueued
	case j.Stop != nil:
		return wlm.PhaseEnding
	default:
		return wlm.PhaseRunning
	}
}

// holdsResources tells whether the job's places are taken.
func (j *job) holdsResources() bool { return !j.Started.IsZero() && j.Ended.IsZero() }

// timeLeft is the time until the job's limit; it reports false without a limit.
func (j *job) timeLeft(now time.Time) (time.Duration, bool) {
	if j.Request.TimeLimit <= 0 || j.Started.IsZero() {
		return 0, false
	}
	return j.Started.Add(j.Request.TimeLimit).Sub(now), true
}

// The words of a job's state, those of Slurm's.
const (
	statePending    = "PENDING"
	stateRunning    = "RUNNING"
	stateCompleting = "COMPLETING"
)

// listed is the job as List shows it; waiting is why it is not started.
func (j *job) listed(waiting string) wlm.Job {
	w := wlm.Job{
		ID: j.ID, Name: j.Request.Name, User: j.User, Phase: j.phase(), Outcome: j.Outcome, Reason: j.Reason,
		Nodes:     strings.Join(nodesOf(j.Places), ","),
		Submitted: j.Submitted, Started: j.Started, Ended: j.Ended,
	}
	switch w.Phase {
	case wlm.PhaseQueued:
		w.State, w.Reason = statePending, waiting
	case wlm.PhaseEnding:
		w.State, w.Reason = stateCompleting, j.Stop.Reason
	case wlm.PhaseEnded:
		w.State = strings.ToUpper(string(j.Outcome))
	default:
		w.State = stateRunning
		if j.Request.TimeLimit > 0 && j.Request.TimeLimit < translate.NoTimeLimit {
			w.LimitEnd = j.Started.Add(j.Request.TimeLimit)
		}
	}
	return w
}
