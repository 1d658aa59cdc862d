// Package wlm is the interface to a workload manager: Slurm, Flux or the
// embedded local one. It stays small: submit, list all in one call, cancel,
// inventory. Everything that differs between them lives behind it.
package wlm

import (
	"context"
	"time"

	"github.com/gangline/gangline/translate"
)

// Manager is a workload manager. Its methods may be called from several
// goroutines. An error of List or Inventory means that nothing was learnt: it
// is never read as "there is nothing".
type Manager interface {
	// Submit asks for an allocation and returns the job's id. It does not
	// look for an earlier job of the same name: the caller does. A
	// *RejectedError says that the workload manager understood and refused;
	// after any other error the job may or may not exist.
	Submit(ctx context.Context, r translate.Request) (jobID string, err error)
	// List returns all jobs that the manager knows of the provider's users,
	// ended ones for as long as it remembers them, in one query.
	List(ctx context.Context) ([]Job, error)
	// Cancel asks for the end of a job of a user's. Success means that it was
	// asked, not that it has ended; a job that is already gone is no error.
	Cancel(ctx context.Context, user, jobID string) error
	// Inventory returns what there is, whoever uses it.
	Inventory(ctx context.Context) (Inventory, error)
	// Name is the manager's kind and version for people, e.g. "slurm 22.05.8".
	Name(ctx context.Context) (string, error)
}

// Checker is a Manager that has nothing for some of what a request may ask.
type Checker interface {
	// Check names what of a request the manager can never be asked, whatever the site
	// configures. It asks nobody.
	Check(r translate.Request) error
}

// Historian is a Manager that can also tell how jobs ended that List no longer has.
type Historian interface {
	// Ended looks for jobs by their names, which are never used twice, in one query.
	// The answer, by name, has those that are known to have ended; one that is not in it
	// is not known, or has not ended. Where the site keeps no history the error wraps
	// errors.ErrUnsupported.
	Ended(ctx context.Context, jobs []JobRef) (map[string]Job, error)
}

// Notifier is a Manager that tells when something has happened to jobs, so that List is
// asked then and not only at intervals.
type Notifier interface {
	// Changes has something in it when List may have another answer than before, until the
	// context ends; several changes may be told of as one. It is a hint: some changes may
	// never be told of, and none may be one.
	Changes(ctx context.Context) <-chan struct{}
}

// JobRef is what is known of a job that has gone from List.
type JobRef struct {
	Name string
	// ID is empty for a job whose submission was never answered.
	ID string
	// Submitted is about when it was submitted.
	Submitted time.Time
}

// Phase is the part of a job's life that matters to a gang.
type Phase string

const (
	// PhaseUnknown is a state that this version does not know. It changes
	// nothing.
	PhaseUnknown  Phase = "Unknown"
	PhaseQueued   Phase = "Queued"
	PhaseStarting Phase = "Starting" // nodes are being made ready
	PhaseRunning  Phase = "Running"
	PhaseEnding   Phase = "Ending" // processes are being ended
	PhaseEnded    Phase = "Ended"
)

// Outcome is how a job ended.
type Outcome string

const (
	OutcomeNone        Outcome = ""
	OutcomeCompleted   Outcome = "Completed"
	OutcomeFailed      Outcome = "Failed"
	OutcomeCancelled   Outcome = "Cancelled"
	OutcomeTimeout     Outcome = "Timeout"
	OutcomeNodeFailure Outcome = "NodeFailure"
	OutcomePreempted   Outcome = "Preempted"
	OutcomeOutOfMemory Outcome = "OutOfMemory"
)

// Job is one job as the workload manager sees it.
type Job struct {
	ID   string
	Name string
	User string
	// State is the manager's own word ("PENDING"), Reason its own
	// explanation ("Priority"); both are shown to people.
	State  string
	Reason string
	// Explanation says in words what Reason means and what helps, where the
	// back end knows; it is part of a sentence, without a full stop.
	Explanation string

	Phase   Phase
	Outcome Outcome
	// Nodes is the manager's own short form ("hpc[1-4]").
	Nodes string
	// Submitted, Started, ExpectedStart and Ended are zero where unknown.
	Submitted     time.Time
	Started       time.Time
	ExpectedStart time.Time
	Ended         time.Time
	// LimitEnd is when the time limit of a job that runs will end it; zero where there
	// is none or it is not known.
	LimitEnd time.Time
}

// Inventory is what a workload manager offers.
type Inventory struct {
	Partitions []Partition
	// ComponentsShareNodes tells whether tasks of different shapes of one
	// allocation may be on one node.
	ComponentsShareNodes bool
}

// Partition is one queue and its nodes.
type Partition struct {
	Name    string
	Default bool
	Nodes   []Node
}

// Node is one HPC node's total, used or not.
type Node struct {
	Name      string
	CPUs      int
	MemoryMiB int64
	GPUs      int // of whatever type
	// Gres are all of its generic resources, GPUs included, as far as the manager
	// names them.
	Gres translate.Gres
	// Used is what jobs have of it, whoever's they are.
	Used translate.Resources
	// Features are what the site calls its properties.
	Features []string
	// Switch is the leaf switch that it is at, empty where that is not known.
	Switch string
	// State is the manager's own word.
	State string
	// Usable is false for a node that is down or drained.
	Usable bool
}

// RejectedError is a workload manager's refusal, in its own words.
type RejectedError struct {
	Message string
}

func (e *RejectedError) Error() string { return e.Message }
