package page

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// Source is the virtual node.
type Source interface {
	// State is what is known now. It must be quick, and waits for nobody else.
	State() State
}

// State is all that the page is made of.
type State struct {
	// Node is the virtual node's name, Cluster the HPC cluster's, Manager the workload
	// manager with its version.
	Node, Cluster, Manager string
	// Listed is when the workload manager last told of its jobs, Trouble why it is silent.
	Listed  time.Time
	Trouble string
	// Partition is the node's own; nil while it is not known.
	Partition *wlm.Partition
	Gangs     []Gang
}

// Gang is one gang: its newest allocation, if it has one, and its pods.
type Gang struct {
	Key string
	// Allocation is nil while there is none.
	Allocation *Allocation
	// Pods are those there are in the API server, with their slots, -1 for none.
	Pods []Pod
}

// Pod is a pod and its slot.
type Pod struct {
	*corev1.Pod
	Slot int
}

// Allocation is what is known of a gang's allocation.
type Allocation struct {
	Name, Namespace, Owner, User string
	Generation                   int
	Slots                        []spool.Slot
	// Submitted is what the workload manager answered, nil before; Job is its last word.
	Submitted *spool.Job
	Job       *wlm.Job
	// Reports are the agents', one for each slot.
	Reports []spool.Status
	Ended   *spool.Ended
}
