package spool

import (
	"math"

	corev1 "k8s.io/api/core/v1"
)

// Site is what an HPC site gives every process of a pod.
type Site struct {
	// Environment are variables that hold where the pod does not set them. Their values
	// may name fields (see EnvironmentFields), which the agent knows.
	Environment []corev1.EnvVar `json:"environment,omitempty"`
	// Limits are resource limits of processes, setrlimit(2)'s soft ones.
	Limits []Limit `json:"limits,omitempty"`
}

// Limit is a soft limit of processes. A node's hard limit bounds it.
type Limit struct {
	// Name is as in limits.conf(5): "memlock", "nofile".
	Name string `json:"name"`
	// Value is in bytes, or a count; Unlimited for none.
	Value uint64 `json:"value"`
	// Silent tells that the hard limit may be lower without a word.
	Silent bool `json:"silent,omitempty"`
}

// Unlimited is the value of no limit, as the kernel has it (RLIM_INFINITY).
const Unlimited uint64 = math.MaxUint64

// The fields that a site's texts may name.
const (
	FieldUser      = "{user}"      // the HPC user that the pod runs as
	FieldHome      = "{home}"      // that user's home directory
	FieldNamespace = "{namespace}" // the pod's
	FieldJob       = "{job}"       // the workload manager's id of the job
	FieldNode      = "{node}"      // the HPC node's name
)

// EnvironmentFields are those of a value of Site.Environment, ScratchFields those of
// Gang.Scratch.
func EnvironmentFields() []string {
	return []string{FieldUser, FieldHome, FieldNamespace, FieldJob, FieldNode}
}

// ScratchFields: see EnvironmentFields.
func ScratchFields() []string { return []string{FieldUser, FieldJob} }
