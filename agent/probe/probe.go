package probe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is what a probe is for. The names are those of kubelet's Events.
type Kind string

const (
	// Startup holds the others back until it has succeeded once.
	Startup Kind = "Startup"
	// Liveness restarts a container that fails it.
	Liveness Kind = "Liveness"
	// Readiness tells whether a container may be sent work.
	Readiness Kind = "Readiness"
)

// Outcome is how one try came out.
type Outcome string

const (
	// Success is what the probe asks for.
	Success Outcome = "success"
	// Warning counts as a success, with something to be told.
	Warning Outcome = "warning"
	// Failure is an answer that is not good, or none in time.
	Failure Outcome = "failure"
	// Unknown is a try that could not be made. It counts as nothing.
	Unknown Outcome = "unknown"
)

// Result is an outcome and what there is to say of it.
type Result struct {
	Outcome Outcome
	Message string
}

// Probe is the state of one probe for one run of a container.
type Probe struct {
	kind Kind
	spec corev1.Probe

	next   time.Time // of the next try
	trying bool

	row   int     // tries in a row that came out as counted
	count Outcome // Success or Failure
	told  Outcome // of the last try, whatever it was
	said  string  // by it

	verdict Outcome // Success, Failure, or empty while there is none
}

// New returns a probe of a container that started at a time. The probe's numbers
// are as the API server defaults them.
func New(kind Kind, spec corev1.Probe, started time.Time) *Probe {
	return &Probe{kind: kind, spec: spec, next: started.Add(time.Duration(spec.InitialDelaySeconds) * time.Second)}
}

// Kind returns what the probe is for.
func (p *Probe) Kind() Kind { return p.kind }

// Due returns when the next try is to be made. There is none while one is under
// way, and none after a verdict that this run of the container cannot change: a
// startup probe's, or a liveness probe's failure.
func (p *Probe) Due() (time.Time, bool) {
	return p.next, !p.trying && !p.settled()
}

func (p *Probe) settled() bool {
	return p.kind == Startup && p.verdict != "" || p.kind == Liveness && p.verdict == Failure
}

// Begin notes that a try begins. The next one follows a period after the time
// this one was due, or at once where that has passed by the end of it. A try that was
// held back for longer than a period begins them anew.
func (p *Probe) Begin(now time.Time) {
	p.trying = true
	period := time.Duration(p.spec.PeriodSeconds) * time.Second
	if p.next = p.next.Add(period); p.next.Before(now) {
		p.next = now.Add(period)
	}
}

// End notes how the try came out and what it said. It reports whether that differs from
// the one before.
func (p *Probe) End(o Outcome, message string) (changed bool) {
	p.trying = false
	changed = o != p.told || message != p.said
	p.told, p.said = o, message
	if o == Warning {
		o = Success
	}
	if o == Unknown {
		return changed
	}
	if o != p.count {
		p.count, p.row = o, 0
	}
	p.row++
	if p.row >= p.threshold(o) {
		p.verdict = o
	}
	return changed
}

func (p *Probe) threshold(o Outcome) int {
	if o == Success {
		return int(p.spec.SuccessThreshold)
	}
	return int(p.spec.FailureThreshold)
}

// Succeeded tells whether the probe's last verdict is a success.
func (p *Probe) Succeeded() bool { return p.verdict == Success }

// Failed tells whether it is a failure.
func (p *Probe) Failed() bool { return p.verdict == Failure }
