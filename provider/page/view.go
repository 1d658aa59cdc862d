package page

import "time"

// View is what is shown.
type View struct {
	Node       string    `json:"node"`
	Cluster    string    `json:"cluster"`
	Manager    string    `json:"manager"`
	Partition  string    `json:"partition"`
	At         time.Time `json:"at"`
	Listed     time.Time `json:"listed,omitzero"`
	Trouble    string    `json:"trouble,omitempty"`
	Namespaces []string  `json:"namespaces"`
	Nodes      []Host    `json:"nodes"`
	Gangs      []Item    `json:"gangs"`
	// Omitted is how many gangs are left out of a list that is too long.
	Omitted int `json:"omitted,omitempty"`
}

// Host is one HPC node.
type Host struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Usable    bool   `json:"usable"`
	CPUs      int    `json:"cpus"`
	GPUs      int    `json:"gpus"`
	MemoryMiB int64  `json:"memoryMiB"`
	// Slots are those of this virtual node's gangs, and Others what jobs of others have,
	// where that is known.
	Slots  []Place `json:"slots"`
	Others Amount  `json:"others"`
}

// Amount is a part of a node.
type Amount struct {
	CPUs int `json:"cpus"`
	GPUs int `json:"gpus"`
}

// Place is a slot on an HPC node.
type Place struct {
	Gang string `json:"gang"` // an Item's ID
	Slot int    `json:"slot"`
	Pod  string `json:"pod,omitempty"`
	CPUs int    `json:"cpus"`
	GPUs int    `json:"gpus"`
}

// Item is one gang.
type Item struct {
	ID         string `json:"id"`
	Namespace  string `json:"namespace"`
	Owner      string `json:"owner"`
	User       string `json:"user,omitempty"`
	Generation int    `json:"generation,omitempty"`
	Stage      Stage  `json:"stage"`
	// Reason says what it waits for, or how it ended.
	Reason string `json:"reason,omitempty"`
	Job    *Job   `json:"job,omitempty"`
	// Place is where it stands among the Of gangs of this virtual node that wait in the
	// workload manager's queue: 1 is expected to start first. 0 for one that does not wait.
	Place    int    `json:"place,omitempty"`
	Of       int    `json:"of,omitempty"`
	Slots    []Slot `json:"slots"`
	Timeline []Span `json:"timeline"`
}

// Job is the workload manager's.
type Job struct {
	ID            string    `json:"id"`
	State         string    `json:"state,omitempty"`
	Nodes         string    `json:"nodes,omitempty"`
	ExpectedStart time.Time `json:"expectedStart,omitzero"`
	LimitEnd      time.Time `json:"limitEnd,omitzero"`
}

// Slot is a pod's place.
type Slot struct {
	Slot     int    `json:"slot"` // -1 for a pod that has none yet
	Pod      string `json:"pod,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Message  string `json:"message,omitempty"`
	Node     string `json:"node,omitempty"`
	CPUs     int    `json:"cpus"`
	GPUs     int    `json:"gpus"`
	Restarts int    `json:"restarts,omitempty"`
}

// Span is a part of a gang's life. The last one of a gang that lives has no end.
type Span struct {
	Stage Stage     `json:"stage"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"`
}

// Stage is where a gang is in its life.
type Stage string

const (
	Forming    Stage = "Forming"
	Submitting Stage = "Submitting"
	Queued     Stage = "Queued"
	Starting   Stage = "Starting"
	Running    Stage = "Running"
	Draining   Stage = "Draining"
	Ended      Stage = "Ended"
)
