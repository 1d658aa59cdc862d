package translate

import (
	"strconv"
	"time"
)

// Resources is what one slot asks of the HPC side.
type Resources struct {
	CPUs      int   // whole cores, at least 1 unless the slot rides
	MemoryMiB int64 // MiB, 0 for the partition's default
	// GPUs is how many, of whatever type.
	GPUs int
	// Gres are the generic resources that are more than a number of GPUs: GPUs of a
	// type, which count in GPUs as well, and all that is no GPU.
	Gres Gres
}

// Request is one allocation as a workload manager is asked for it: neutral
// between Slurm, Flux and local. Its tasks are the slots that have resources of
// their own, in rank order.
type Request struct {
	// Name is the job's name and the key of idempotent submission; it is a
	// DNS label, so it is safe in any command line.
	Name string
	// User is the HPC user that the job is to be of; empty where there is only one.
	User string
	// Comment says who owns the job, for the site's people.
	Comment string
	// Groups are runs of equal tasks in rank order. More than one is a
	// heterogeneous job.
	Groups []TaskGroup
	Wishes
	// Dependency is DependsOn with the jobs' numbers, as sbatch's --dependency takes
	// it; empty for none.
	Dependency string
	// Agent is the agent's path and Dir the gang's spool directory, both as
	// the HPC nodes see them. The job runs `Agent launch Dir`.
	Agent string
	Dir   string
}

// TaskGroup is a run of equal tasks.
type TaskGroup struct {
	Tasks int
	Resources
}

// Wishes are what the annotations of wellknown ask for. An empty field leaves
// the choice to the workload manager.
type Wishes struct {
	Partition   string
	Account     string
	QOS         string
	Constraint  string
	Reservation string
	TimeLimit   time.Duration // 0: the partition's default
	// TimeLimitWarning is how long before the time limit the pods are stopped, 0 for
	// the site's choice, NoTimeLimitWarning for not at all.
	TimeLimitWarning time.Duration
	Exclusive        bool // whole nodes

	GPUType  string
	Licenses string
	Switches Switches
	// MinNodes and MaxNodes bound the nodes that the job is spread over; 0 for no bound.
	MinNodes, MaxNodes int
	Nice               int // 0 for none
	Comment            string
	WCKey              string
	DependsOn          []Dependency
	Flags              []Flag

	// MPILaunch and MPIPMI are each pod's own, not the allocation's: how its
	// launchers start ranks (see spool.MPI).
	MPILaunch string
	MPIPMI    string
	// Runtime is the pod's own too: what runs its images. Empty for the site's default.
	Runtime string
}

// NoTimeLimitWarning is the TimeLimitWarning of who wants none.
const NoTimeLimitWarning time.Duration = -1

// NewRequest is a gang's allocation request. The job's comment says whose it
// is.
func NewRequest(name string, g Gang, w Wishes, agent, dir string) Request {
	r := Request{
		Name:    name,
		Comment: "gangline: " + g.Owner + " uid " + string(g.OwnerUID),
		Groups:  g.TaskGroups(),
		Wishes:  w,
		Agent:   agent,
		Dir:     dir,
	}
	if w.Comment != "" {
		r.Comment += ": " + w.Comment
	}
	for i := range r.Groups {
		r.Groups[i].Resources = r.Groups[i].ofType(w.GPUType)
	}
	return r
}

// ofType gives GPUs a type that have none.
func (r Resources) ofType(gpuType string) Resources {
	types, _ := r.Gres.Split()
	if untyped := r.GPUs - types.total(); gpuType != "" && untyped > 0 {
		r.Gres = r.Gres.Plus(gpuGres+":"+gpuType, untyped)
	}
	return r
}

// GPUsPerTask is the value of sbatch's --gpus-per-task: a number, or types with one
// each ("h100:2"); "" for none.
func (r Resources) GPUsPerTask() string {
	types, _ := r.Gres.Split()
	switch {
	case r.GPUs == 0:
		return ""
	case types != "":
		return string(types)
	}
	return strconv.Itoa(r.GPUs)
}
