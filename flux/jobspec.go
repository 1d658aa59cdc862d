package flux

import (
	"encoding/json"
	"time"
)

// Jobspec is a job as it is submitted: version 1 of RFC 25. Its zero value is no valid
// one: NewJobspec makes one.
type Jobspec struct {
	Version    int        `json:"version"`
	Resources  []Resource `json:"resources"`
	Tasks      []Task     `json:"tasks"`
	Attributes Attributes `json:"attributes"`
}

// Resource is a vertex of the tree of what a job asks for: nodes, slots, cores, GPUs.
type Resource struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
	// Label names a slot.
	Label string `json:"label,omitempty"`
	// Exclusive takes the whole of a node.
	Exclusive bool       `json:"exclusive,omitempty"`
	With      []Resource `json:"with,omitempty"`
}

// Task is what runs in slots.
type Task struct {
	Command []string  `json:"command"`
	Slot    string    `json:"slot"`
	Count   TaskCount `json:"count"`
}

// TaskCount is how often. Flux's shell knows one task per slot only.
type TaskCount struct {
	PerSlot int `json:"per_slot,omitempty"`
	Total   int `json:"total,omitempty"`
}

// Attributes of a jobspec.
type Attributes struct {
	System System         `json:"system"`
	User   map[string]any `json:"user,omitempty"`
}

// System is what the instance is told about a job.
type System struct {
	// Duration is the time limit in seconds; 0 for none.
	Duration float64 `json:"duration"`
	Cwd      string  `json:"cwd,omitempty"`
	// Environment is the whole of it: nothing is inherited, PATH neither.
	Environment  map[string]string `json:"environment"`
	Job          *JobName          `json:"job,omitempty"`
	Queue        string            `json:"queue,omitempty"`
	Bank         string            `json:"bank,omitempty"`
	Project      string            `json:"project,omitempty"`
	Dependencies []Dependency      `json:"dependencies,omitempty"`
	// Constraints is an RFC 31 expression about nodes; see Properties and Hosts.
	Constraints Constraint      `json:"constraints,omitempty"`
	Shell       *Shell          `json:"shell,omitempty"`
	Files       map[string]File `json:"files,omitempty"`
}

// JobName is a job's name, by which Query finds it.
type JobName struct {
	Name string `json:"name"`
}

// Dependency holds a job back until another's start or end: the schemes are after,
// afterany, afterok, afternotok; the value is a job id.
type Dependency struct {
	Scheme string `json:"scheme"`
	Value  string `json:"value"`
}

// Shell is what the job shell is told. Options are those of flux-shell(1).
type Shell struct {
	Options map[string]any `json:"options,omitempty"`
}

// File is one that the job finds in its temporary directory.
type File struct {
	Mode     int    `json:"mode"`
	Data     string `json:"data"`
	Encoding string `json:"encoding,omitempty"`
}

// slotLabel is how a jobspec's tasks find its only kind of slot.
const slotLabel = "task"

// Slots is what NewJobspec asks for.
type Slots struct {
	// Count is the number of slots, in all; each runs the command once.
	Count int
	Cores int // of each, at least 1
	GPUs  int // of each
	// Nodes spreads the slots over so many nodes, evenly; Count must be a multiple of
	// it. 0 leaves the nodes to the scheduler.
	Nodes int
	// Exclusive takes the Nodes as a whole.
	Exclusive bool
}

// NewJobspec is a job that runs a command in each of its slots, for as long as it
// takes, with an empty environment. Change what is to be different.
func NewJobspec(s Slots, command ...string) Jobspec {
	slot := Resource{Type: "slot", Label: slotLabel, Count: s.Count, With: []Resource{{Type: "core", Count: s.Cores}}}
	if s.GPUs > 0 {
		slot.With = append(slot.With, Resource{Type: "gpu", Count: s.GPUs})
	}
	resources := []Resource{slot}
	if s.Nodes > 0 {
		slot.Count = s.Count / s.Nodes
		resources = []Resource{{Type: "node", Count: s.Nodes, Exclusive: s.Exclusive, With: []Resource{slot}}}
	}
	return Jobspec{
		Version:    1,
		Resources:  resources,
		Tasks:      []Task{{Command: command, Slot: slotLabel, Count: TaskCount{PerSlot: 1}}},
		Attributes: Attributes{System: System{Environment: map[string]string{}}},
	}
}

// SetDuration sets the time limit; 0 for none.
func (j *Jobspec) SetDuration(limit time.Duration) { j.Attributes.System.Duration = limit.Seconds() }

// SetName sets the job's name.
func (j *Jobspec) SetName(name string) { j.Attributes.System.Job = &JobName{Name: name} }

// SetShellOption sets an option of the job shell.
func (j *Jobspec) SetShellOption(name string, value any) {
	if j.Attributes.System.Shell == nil {
		j.Attributes.System.Shell = &Shell{Options: map[string]any{}}
	}
	j.Attributes.System.Shell.Options[name] = value
}

// SetOutput has what the tasks print, of both streams, go to a file of the first node.
// Flux fills in templates like {{id}} in the path. Where no output is set, it is kept
// with the job: see Handle.Output.
func (j *Jobspec) SetOutput(path string) { j.setOutput(path, "truncate") }

// AppendOutput is SetOutput to a file that keeps what is in it. Flux 0.60 or later.
func (j *Jobspec) AppendOutput(path string) { j.setOutput(path, "append") }

func (j *Jobspec) setOutput(path, mode string) {
	j.SetShellOption("output", map[string]any{
		"mode":   mode,
		"stdout": map[string]string{"type": "file", "path": path},
		"stderr": map[string]string{"type": "file", "path": path},
	})
}

// String is the jobspec's JSON.
func (j Jobspec) String() string {
	text, err := json.Marshal(j)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
