package spool

import corev1 "k8s.io/api/core/v1"

// Runtime is how a pod's images are run: by which container runtime, and where images
// come from.
type Runtime struct {
	// Name is the runtime's, as agent/container has it.
	Name string `json:"name"`
	// Program is its file, empty for what PATH has under its usual name. Options are the
	// site's own words for it.
	Program string   `json:"program,omitempty"`
	Options []string `json:"options,omitempty"`
	// Images is the site's store.
	Images ImageStore `json:"images"`
	// Binds are paths of the HPC nodes that every container has.
	Binds []Bind `json:"binds,omitempty"`
	// HomeOfUser makes the user's own home directory the containers'.
	HomeOfUser bool `json:"homeOfUser,omitempty"`
	// GPULibraries are the names of libraries and programs of the HPC nodes which a
	// container with GPUs finds ("libcuda.so*"), where the runtime does not see to that.
	GPULibraries []string `json:"gpuLibraries,omitempty"`
	// GPUs is who made them: "nvidia" or "amd".
	GPUs string `json:"gpus,omitempty"`
	// PullSecrets are the contents of the pod's imagePullSecrets: .dockerconfigjson, or the
	// older .dockercfg.
	PullSecrets [][]byte `json:"pullSecrets,omitempty"`
}

// ImageStore is where images are kept on the HPC side, and what they are got from. Its
// fields are those of agent/image's Options.
type ImageStore struct {
	Dir             string              `json:"dir"`
	Offline         map[string]string   `json:"offline,omitempty"`
	Mirrors         map[string][]string `json:"mirrors,omitempty"`
	Insecure        []string            `json:"insecure,omitempty"`
	CAFile          string              `json:"caFile,omitempty"`
	CredentialsFile string              `json:"credentialsFile,omitempty"`
	Tool            []string            `json:"tool,omitempty"`
	MaxBytes        int64               `json:"maxBytes,omitempty"`
	// MinAgeSeconds is how long an image is kept after its last use.
	MinAgeSeconds int64 `json:"minAgeSeconds,omitempty"`
}

// Bind is a path of the HPC nodes that is shown in containers, at the same path where
// Target is empty. A node that does not have it goes without.
type Bind struct {
	Source   string `json:"source"`
	Target   string `json:"target,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// InImage is what a container that runs in its image needs to be told beside what a
// program of the HPC node is.
type InImage struct {
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// Command and Args are the container's, expanded; what is missing is the image's.
	// ContainerOrders.Argv is empty then.
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// User and Group are who the process is to be in the image; nil for the HPC user.
	User  *int64 `json:"user,omitempty"`
	Group *int64 `json:"group,omitempty"`
	// ReadOnly keeps the process from writing to the image.
	ReadOnly bool `json:"readOnly,omitempty"`
}
