package flux

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Query of Jobs.
type Query struct {
	// Constraint says which jobs; none for all.
	Constraint Constraint
	// Since leaves out jobs that ended before.
	Since time.Time
	// Max bounds how many, the youngest first; 0 for all.
	Max int
	// Attributes are what is asked of each; DefaultAttributes if nil. A long list costs:
	// 1,000 jobs with all attributes are half a megabyte.
	Attributes []string
}

// DefaultAttributes fill in all of Job but its annotations.
func DefaultAttributes() []string {
	return []string{
		"userid", "urgency", "priority", "name", "queue", "bank", "state", "result", "waitstatus", "success",
		"t_submit", "t_run", "t_cleanup", "t_inactive", "expiration", "duration",
		"ntasks", "ncores", "nnodes", "nodelist",
		"exception_occurred", "exception_type", "exception_severity", "exception_note",
	}
}

// Job is what the instance lists of a job. What was not asked for, or is not there yet,
// is zero.
type Job struct {
	ID       JobID
	UserID   int
	Urgency  int
	Priority int64
	Name     string
	Queue    string
	Bank     string
	State    State
	Result   Outcome // of an inactive job
	// Started tells whether Status is known: the job's tasks were started and have ended.
	Started bool
	Status  WaitStatus
	// Exception is the gravest that was raised; nil for none.
	Exception *Exception

	Submitted, Run, Cleanup, Ended time.Time
	// Expiration is when the time limit ends a job that runs.
	Expiration time.Time
	Duration   time.Duration // the time limit

	Tasks, Cores, Nodes int
	NodeList            string // "n[0-3]"
	Annotations         Annotations
}

// Annotations are what others say of a job that waits or runs. RFC 27.
type Annotations struct {
	Sched struct {
		// ReasonPending says why it waits, where the scheduler does.
		ReasonPending   string  `json:"reason_pending,omitempty"`
		ResourceSummary string  `json:"resource_summary,omitempty"`
		TEstimate       float64 `json:"t_estimate,omitempty"` // of its start, in Unix seconds
	} `json:"sched"`
	User map[string]any `json:"user,omitempty"`
}

// UnmarshalJSON reads job-list's form.
func (j *Job) UnmarshalJSON(text []byte) error {
	var w struct {
		ID                uint64      `json:"id"`
		UserID            int         `json:"userid"`
		Urgency           int         `json:"urgency"`
		Priority          int64       `json:"priority"`
		Name              string      `json:"name"`
		Queue             string      `json:"queue"`
		Bank              string      `json:"bank"`
		State             State       `json:"state"`
		Result            Outcome     `json:"result"`
		WaitStatus        *WaitStatus `json:"waitstatus"`
		Submitted         float64     `json:"t_submit"`
		Run               float64     `json:"t_run"`
		Cleanup           float64     `json:"t_cleanup"`
		Inactive          float64     `json:"t_inactive"`
		Expiration        float64     `json:"expiration"`
		Duration          float64     `json:"duration"`
		Tasks             int         `json:"ntasks"`
		Cores             int         `json:"ncores"`
		Nodes             int         `json:"nnodes"`
		NodeList          string      `json:"nodelist"`
		ExceptionOccurred bool        `json:"exception_occurred"`
		ExceptionType     string      `json:"exception_type"`
		ExceptionSeverity int         `json:"exception_severity"`
		ExceptionNote     string      `json:"exception_note"`
		Annotations       Annotations `json:"annotations"`
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*j = Job{
		ID: JobID(w.ID), UserID: w.UserID, Urgency: w.Urgency, Priority: w.Priority,
		Name: w.Name, Queue: w.Queue, Bank: w.Bank, State: w.State, Result: w.Result,
		Submitted: unixTime(w.Submitted), Run: unixTime(w.Run), Cleanup: unixTime(w.Cleanup), Ended: unixTime(w.Inactive),
		Expiration: unixTime(w.Expiration), Duration: time.Duration(w.Duration * float64(time.Second)),
		Tasks: w.Tasks, Cores: w.Cores, Nodes: w.Nodes, NodeList: w.NodeList, Annotations: w.Annotations,
	}
	if w.WaitStatus != nil {
		j.Started, j.Status = true, *w.WaitStatus
	}
	if w.ExceptionOccurred {
		j.Exception = &Exception{Type: w.ExceptionType, Severity: w.ExceptionSeverity, Note: w.ExceptionNote}
	}
	return nil
}

// Jobs lists jobs, those that wait first.
func (h *Handle) Jobs(ctx context.Context, q Query) ([]Job, error) {
	attributes := q.Attributes
	if attributes == nil {
		attributes = DefaultAttributes()
	}
	request := map[string]any{"max_entries": q.Max, "attrs": attributes}
	if len(q.Constraint) > 0 {
		request["constraint"] = q.Constraint
	}
	if !q.Since.IsZero() {
		request["since"] = float64(q.Since.UnixMicro()) / 1e6
	}
	var answer struct {
		Jobs []Job `json:"jobs"`
	}
	err := h.RPC(ctx, "job-list.list", request, &answer)
	return answer.Jobs, err
}

// Job finds one job. One that never was is an *Error (ENOENT).
func (h *Handle) Job(ctx context.Context, id JobID, attributes ...string) (Job, error) {
	if len(attributes) == 0 {
		attributes = append(DefaultAttributes(), "annotations")
	}
	var answer struct {
		Job Job `json:"job"`
	}
	err := h.RPC(ctx, "job-list.list-id", map[string]any{"id": id, "attrs": attributes}, &answer)
	return answer.Job, err
}

// Lookup reads what is kept with a job: "jobspec", "R" (its resources), "eventlog", "J"
// (the signed jobspec), as text. A key that is not there yet is an *Error (ENOENT).
func (h *Handle) Lookup(ctx context.Context, id JobID, keys ...string) (map[string]string, error) {
	var answer map[string]any
	err := h.RPC(ctx, "job-info.lookup", map[string]any{"id": id, "keys": keys, "flags": 0}, &answer)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(keys))
	for _, key := range keys {
		text, ok := answer[key].(string)
		if !ok {
			return nil, fmt.Errorf("job-info.lookup: the answer for job %s has no %q", id, key)
		}
		found[key] = text
	}
	return found, nil
}
