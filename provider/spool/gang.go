package spool

import "time"

// Version is the version of the files' format. A reader refuses a newer one.
const Version = 1

// Gang is gang.json: what one allocation holds and how its pods are called.
// The node writes it before it submits, and again when Names or Release change.
type Gang struct {
	Version int `json:"version"`
	// Allocation is the directory's name and the job's name in the workload
	// manager: the key that makes submission idempotent.
	Allocation string `json:"allocation"`
	// Key is the gang's key (see translate.Gang); Generation counts its
	// allocations from 1.
	Key        string `json:"key"`
	Generation int    `json:"generation"`
	// Cluster is the UID of the cluster's kube-system namespace and Node the
	// virtual node's name: a provider touches no allocation but its own.
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// User is the HPC user whose all of it is: whom the gang was mapped to when its
	// allocation was made. It is empty in what versions wrote that had one user only.
	User string `json:"user,omitempty"`
	// Owner says whose gang this is in words, e.g. "JobSet default/pi".
	Owner     string `json:"owner"`
	Namespace string `json:"namespace"`
	OwnerName string `json:"ownerName"`
	OwnerUID  string `json:"ownerUID"`
	// Seal proves to the node that all of the above is its own word: the file is the
	// user's.
	Seal string `json:"seal,omitempty"`
	// Slots in rank order; Tasks[t] lists the slots that task t of the
	// allocation serves: its own and those that ride on it.
	Slots []Slot  `json:"slots"`
	Tasks [][]int `json:"tasks"`
	// Names is the table of names that every pod of the gang can resolve. It
	// is empty until all agents have reported their address.
	Names []Name `json:"names,omitempty"`
	// Release asks the agents to end, and so the allocation. It is never
	// taken back.
	Release bool `json:"release,omitempty"`
	// Refills tells that the owner may bring new pods into the slots.
	Refills bool `json:"refills,omitempty"`
	// MovesPorts tells that the pods meet at ports that their agents keep instead of
	// those that are written: no other pods meet them there, and other gangs may be on
	// their nodes.
	MovesPorts bool `json:"movesPorts,omitempty"`
	// Groups is the number of heterogeneous components the job has.
	Groups int `json:"groups"`
	// Scratch is a directory of the HPC nodes' own disks for pods' scratch volumes, with
	// fields (see ScratchFields); empty for the TMPDIR of the job's environment.
	Scratch string `json:"scratch,omitempty"`
}

// Slot is one pod's place in a gang.
type Slot struct {
	// Group, Job and Index are the place within the owner: replicated job, job
	// index and completion index for a JobSet's pods.
	Group string `json:"group,omitempty"`
	Job   int    `json:"job"`
	Index int    `json:"index"`
	// Hostname is the pod's host name and Hosts all its names, known before
	// the pod exists.
	Hostname string   `json:"hostname"`
	Hosts    []string `json:"hosts,omitempty"`
	// MPISlots is what the hostfile offers on this pod; 0 leaves it out.
	MPISlots int `json:"mpiSlots,omitempty"`
	// Rides tells that the slot has no resources of its own.
	Rides bool `json:"rides,omitempty"`
	// GPUs is the number of GPUs the slot asked for.
	GPUs int `json:"gpus,omitempty"`
	// CPUs, MemoryMiB and Gres ("gpu:h100:2,shard:4") are what else it asked for.
	CPUs      int    `json:"cpus,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	Gres      string `json:"gres,omitempty"`
	// Component is the part of a heterogeneous job that holds the slot, from 0.
	Component int `json:"component,omitempty"`
	// Rendezvous are the ports that pods of the gang were written to meet at in this
	// slot. The i-th of Agent.RendezvousPorts is used instead of the i-th.
	Rendezvous []int `json:"rendezvous,omitempty"`
}

// Name is one line of the table of names: where a slot's pod is.
type Name struct {
	Slot int `json:"slot"`
	// Hosts are all names of the pod, the shortest first.
	Hosts   []string `json:"hosts"`
	Address string   `json:"address"`
	SSHPort int      `json:"sshPort"`
	// Node is the HPC node as the workload manager calls it.
	Node string `json:"node,omitempty"`
}

// Job is job.json: what the workload manager answered to the submission.
type Job struct {
	ID        string    `json:"id"`
	Submitted time.Time `json:"submitted"`
}

// Claim is the content of the claim file: the job that runs the gang.
// Whoever finds another job's claim must end without running anything.
type Claim struct {
	JobID    string    `json:"jobID"`
	Host     string    `json:"host"`
	Acquired time.Time `json:"acquired"`
}

// AskedToEnd is a Result's message where nothing but the order to end is known. Whoever knows
// who gave it, and why, says more.
const AskedToEnd = "the job was asked to end"

// Result is result.json: how the launcher saw the allocation end.
type Result struct {
	// ExitCode is the launcher's own: that of the pods (the highest), or of
	// what failed before them.
	ExitCode int       `json:"exitCode"`
	Message  string    `json:"message,omitempty"`
	Finished time.Time `json:"finished"`
	// Requeued tells that the workload manager started the job again after that.
	Requeued bool `json:"requeued,omitempty"`
}

// Ended is ended.json: the node's final word about an allocation. It is
// written after the pods have got theirs.
type Ended struct {
	// Outcome is one of wlm.Outcome's values, or "Lost" for a job that the
	// workload manager knows no more.
	Outcome string    `json:"outcome"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
}
