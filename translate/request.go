package translate

import (
	"cmp"
	"time"
)

// Resources is what one slot asks of the HPC side.
type Resources struct {
	CPUs      int   // whole cores, at least 1 unless the slot rides
	MemoryMiB int64 // MiB, 0 for the partition's default
	GPUs      int
}

// Request is one allocation as a workload manager is asked for it: neutral
// between Slurm, Flux and local. Its tasks are the slots that have resources of
// their own, in rank order.
type Request struct {
	// Name is the job's name and the key of idempotent submission; it is a
	// DNS label, so it is safe in any command line.
	Name string
	// Comment says who owns the job, for the site's people.
	Comment string
	// Groups are runs of equal tasks in rank order. More than one is a
	// heterogeneous job.
	Groups []TaskGroup
	Wishes
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
	Exclusive   bool          // whole nodes

	// MPILaunch and MPIPMI are each pod's own, not the allocation's: how its
	// launchers start ranks (see spool.MPI).
	MPILaunch string
	MPIPMI    string
}

// NewRequest is a gang's allocation request. The job's comment says whose it
// is.
func NewRequest(name string, g Gang, w Wishes, agent, dir string) Request {
	return Request{
		Name:    name,
		Comment: "gangline: " + g.Owner + " uid " + string(g.OwnerUID),
		Groups:  g.TaskGroups(),
		Wishes:  w,
		Agent:   agent,
		Dir:     dir,
	}
}

// Merge fills what is not set in w from another's wishes. Where both say
// something and not the same, it names the wish: a gang is one job.
func (w Wishes) Merge(other Wishes) (merged Wishes, conflict string) {
	pick := func(name, mine, theirs string) string {
		if mine != "" && theirs != "" && mine != theirs {
			conflict = name
		}
		return cmp.Or(mine, theirs)
	}
	w.Partition = pick("partition", w.Partition, other.Partition)
	w.Account = pick("account", w.Account, other.Account)
	w.QOS = pick("qos", w.QOS, other.QOS)
	w.Constraint = pick("constraint", w.Constraint, other.Constraint)
	w.Reservation = pick("reservation", w.Reservation, other.Reservation)
	if w.TimeLimit != 0 && other.TimeLimit != 0 && w.TimeLimit != other.TimeLimit {
		conflict = "time-limit"
	}
	w.TimeLimit = cmp.Or(w.TimeLimit, other.TimeLimit)
	w.Exclusive = w.Exclusive || other.Exclusive
	return w, conflict
}
