package checker

import (
	"strconv"
	"time"
)

// History is all that was seen.
type History struct {
	Processes []Process
	Jobs      []Job
	Pods      []Pod
	Dirs      []Dir
	Deeds     []Deed
	// Left is what was still there in the end, in words.
	Left []string
	// Sightings counts how often processes were seen on the machine, and Scans the looks
	// into the spool: who saw nothing can prove nothing.
	Sightings, Scans int
}

// Process is one life of a pod's process.
type Process struct {
	// Pod is the pod's UID, Slot its namespace and host name, which a later pod in the
	// same place of its gang has as well.
	Pod, Slot string
	PID       int
	Began     time.Time
	// Ended is when the process said that it ends, and Code with what; zero if it never
	// did.
	Ended time.Time
	Code  int
	// LastSeen is when anything of the pod was last seen among the machine's processes.
	LastSeen time.Time
}

// over is the last moment at which the process is known to have lived.
func (p Process) over() time.Time {
	if p.LastSeen.After(p.Ended) {
		return p.LastSeen
	}
	return p.Ended
}

// Job is a line of jobcomp: a job that has ended. Times are whole seconds, cut off.
type Job struct {
	ID, Name, State           string
	Code, Signal              int
	Submitted, Started, Ended time.Time
	Nodes                     string
}

// number is the id as a number, 0 if it is none.
func (j Job) number() int {
	n, _ := strconv.Atoi(j.ID)
	return n
}

// Pod is what the API server said of a pod.
type Pod struct {
	UID, Namespace, Name string
	Seen                 []Sight
	// Deleting is when the pod was first seen with a deletion timestamp, Gone when it was
	// seen no more; zero for never.
	Deleting, Gone time.Time
}

// Sight is a pod as of a moment.
type Sight struct {
	At              time.Time
	Phase           string
	Reason, Message string
	// Code is the container's exit code, nil while it has none.
	Code *int
	// Allocation, Job and Node are the annotations that name them.
	Allocation, Job, Node string
}

func (p Pod) last() Sight {
	if len(p.Seen) == 0 {
		return Sight{}
	}
	return p.Seen[len(p.Seen)-1]
}

// latest is the last word on one thing that later sights may no longer have.
func (p Pod) latest(of func(Sight) string) string {
	for i := len(p.Seen) - 1; i >= 0; i-- {
		if v := of(p.Seen[i]); v != "" {
			return v
		}
	}
	return ""
}

func (p Pod) allocation() string { return p.latest(func(s Sight) string { return s.Allocation }) }
func (p Pod) node() string       { return p.latest(func(s Sight) string { return s.Node }) }

func (s Sight) terminal() bool { return s.Phase == "Succeeded" || s.Phase == "Failed" }

// Dir is an allocation's directory in the spool.
type Dir struct {
	Allocation string
	// Gang is the key of the gang that it is of, Generation which of its allocations.
	Gang       string
	Generation int
	// Groups is how many components its job has: above 1 it is heterogeneous.
	Groups int
	// Claims are the jobs that were seen to hold the claim, Outcomes what ended.json said.
	Claims, Outcomes []string
	// Claimed is when the first claim says that it was taken: then its job started.
	Claimed             time.Time
	FirstSeen, LastSeen time.Time
	// Ended is when ended.json was first seen, zero if it never was.
	Ended time.Time
}

// Deed is what was done to break things.
type Deed struct {
	At, Until time.Time
	Kind      string
	// Target is what it was done to, in words, for people.
	Target string `json:",omitempty"`
	// Allocation and Node name whom it may have harmed; see reaches. Pod is for people.
	Allocation, Node, Pod string `json:",omitempty"`
	// Error is why it did not work.
	Error string `json:",omitempty"`
}
