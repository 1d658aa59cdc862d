package spool

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Action is what the node wants of a slot's pod.
type Action string

const (
	// ActionRun asks for the pod's containers to run.
	ActionRun Action = "run"
	// ActionStop asks for them to end within the grace period.
	ActionStop Action = "stop"
)

// Desired is slots/<k>/desired.json: the pod that is bound to the slot.
type Desired struct {
	Version int    `json:"version"`
	PodUID  string `json:"podUID"`
	Pod     string `json:"pod"` // namespace/name, for people
	Action  Action `json:"action"`
	// GraceSeconds bounds a stop: SIGTERM first, SIGKILL when it is over. It
	// counts from the moment the agent reads the stop, and a later file may
	// only shorten it.
	GraceSeconds int64 `json:"graceSeconds,omitempty"`
	// Recipient names the agent key that Orders is sealed to. An agent that
	// finds another's waits: the node will seal them again.
	Recipient string `json:"recipient,omitempty"`
	// Orders is a PodOrders as JSON, sealed (see Seal). A pod that already
	// runs keeps the orders it started with.
	Orders []byte `json:"orders,omitempty"`
	// Update is a PodUpdate as JSON, sealed like Orders: what has changed since
	// the pod got those. It is complete: a later one replaces an earlier one.
	Update []byte `json:"update,omitempty"`
}

// Binding is what a Desired says besides its sealed parts: which pod has the slot. A node
// that begins anew reads those of all slots, and their user may have written anything there.
type Binding struct {
	Version      int    `json:"version"`
	PodUID       string `json:"podUID"`
	Pod          string `json:"pod"`
	Action       Action `json:"action"`
	GraceSeconds int64  `json:"graceSeconds,omitempty"`
	Recipient    string `json:"recipient,omitempty"`
}

// Desired is the file without its sealed parts.
func (b Binding) Desired() Desired {
	return Desired{Version: b.Version, PodUID: b.PodUID, Pod: b.Pod, Action: b.Action, GraceSeconds: b.GraceSeconds, Recipient: b.Recipient}
}

// Status is slots/<k>/status.json: what the slot's agent observes.
type Status struct {
	Version int   `json:"version"`
	Agent   Agent `json:"agent"`
	// Pod is nil until the slot was given its first pod.
	Pod *PodStatus `json:"pod,omitempty"`
}

// Agent describes the process that serves a slot.
type Agent struct {
	// Instance differs for each start of an agent.
	Instance string `json:"instance"`
	// JobID is the workload manager's id of the job the agent runs in.
	JobID string `json:"jobID"`
	// Node is the HPC node's name, Address its IP as the other nodes and the
	// virtual node reach it.
	Node    string `json:"node"`
	Address string `json:"address"`
	SSHPort int    `json:"sshPort"`
	// RendezvousPorts are TCP ports of the node that the agent keeps for its pods, for
	// processes of the gang to meet at.
	RendezvousPorts []int `json:"rendezvousPorts,omitempty"`
	// Recipient is the public half of the agent's key (an age X25519
	// recipient); the other half never leaves its memory.
	Recipient string `json:"recipient"`
	// Program is gangline-agent's version; empty for an older one that did not say it.
	Program string    `json:"program,omitempty"`
	Started time.Time `json:"started"`
	// PrivateRoot tells whether pods get their mounts at their own paths.
	// Where they can't, PrivateRootError says why.
	PrivateRoot      bool   `json:"privateRoot"`
	PrivateRootError string `json:"privateRootError,omitempty"`
}

// PodStatus is what became of one pod. The container statuses are Kubernetes'
// own, so that the node need not guess: the agent fills Name, State,
// LastTerminationState, RestartCount, Ready, Started and ContainerID.
type PodStatus struct {
	UID string `json:"uid"`
	// Taken is when the agent began with the pod's orders.
	Taken time.Time `json:"taken,omitzero"`
	// Started is when the first container was started; zero before.
	Started time.Time `json:"started,omitzero"`
	// Restarting tells that all containers are being ended because one of them has
	// asked for that by its end (RestartAllContainers), and will start again.
	Restarting     bool                     `json:"restarting,omitempty"`
	InitContainers []corev1.ContainerStatus `json:"initContainers,omitempty"`
	Containers     []corev1.ContainerStatus `json:"containers"`
	// EphemeralContainers are those that came by a PodUpdate.
	EphemeralContainers []corev1.ContainerStatus `json:"ephemeralContainers,omitempty"`
	// Events are the newest that the pod's Events are to tell.
	Events []Event `json:"events,omitempty"`
	// Done tells that nothing of the pod runs any more nor will be started.
	Done bool `json:"done,omitempty"`
	// Interrupted tells that the pod was ended because the agent itself was told
	// to end, by the workload manager and not by the node. Why is for the
	// workload manager to say: a time limit, a preemption, another node's failure.
	Interrupted bool `json:"interrupted,omitempty"`
	// Reason and Message explain a pod that failed as a whole, before or
	// beside its containers.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Event is what happened to a container of a pod, for a Kubernetes Event.
type Event struct {
	// Time differs for each Event of a pod, and so names it.
	Time      time.Time `json:"time"`
	Container string    `json:"container"`
	Type      string    `json:"type"` // corev1.EventTypeNormal or EventTypeWarning
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
}

// PodOrders is all an agent needs to run a pod. Nothing in it needs the API
// server: references are resolved, variables expanded.
type PodOrders struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Hostname  string `json:"hostname"`

	RestartPolicy corev1.RestartPolicy `json:"restartPolicy"`
	GraceSeconds  int64                `json:"graceSeconds"`
	// InitContainers run one after the other before Containers; those whose
	// RestartPolicy is Always are sidecars.
	InitContainers []ContainerOrders `json:"initContainers,omitempty"`
	Containers     []ContainerOrders `json:"containers"`
	Volumes        []Volume          `json:"volumes,omitempty"`
	// StorageLimit is what the pod's logs and its volumes on disk may hold in all,
	// a quantity of bytes; empty for no limit.
	StorageLimit string             `json:"storageLimit,omitempty"`
	HostAliases  []corev1.HostAlias `json:"hostAliases,omitempty"`
	SSH          SSH                `json:"ssh"`
	MPI          MPI                `json:"mpi,omitzero"`
	// Logs bounds the logs of each container's run.
	Logs LogLimits `json:"logs,omitzero"`
	// Runtime is how the containers' images are run; nil where they are programs of the
	// HPC node.
	Runtime *Runtime `json:"runtime,omitempty"`
	// Site is what the HPC site gives every process of the pod.
	Site Site `json:"site,omitzero"`
}

// LogLimits bounds what the log of one run of a container takes. The zero value
// leaves it to the agent.
type LogLimits struct {
	// MaxBytes is the size at which a file is followed by the next, or below 0 for
	// a single one of any size; MaxFiles is how many are kept.
	MaxBytes int64 `json:"maxBytes"`
	MaxFiles int   `json:"maxFiles"`
}

// PodUpdate is what changes while a pod runs.
type PodUpdate struct {
	UID string `json:"uid"`
	// Volumes are those whose Files are to be replaced.
	Volumes []Volume `json:"volumes,omitempty"`
	// EphemeralContainers are all that the pod has got by now. None is started
	// twice, nor taken away.
	EphemeralContainers []ContainerOrders `json:"ephemeralContainers,omitempty"`
}

// MPI is how the pod's launchers (mpirun, mpiexec) start their ranks.
type MPI struct {
	// Launch is "ssh" or "srun"; empty means ssh.
	Launch string `json:"launch,omitempty"`
	// PMI is the protocol that the ranks speak in the mode srun, as srun's --mpi
	// calls it; empty to find out.
	PMI string `json:"pmi,omitempty"`
}

// ContainerOrders is one container's process.
type ContainerOrders struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	// Argv is the command followed by the args, expanded; never a shell's.
	Argv []string `json:"argv"`
	// InImage is set where the container runs in its image.
	InImage *InImage `json:"inImage,omitempty"`
	// SSHD is set where the command is sshd: the agent puts its own in that place.
	SSHD *SSHD `json:"sshd,omitempty"`
	// Env is the whole environment of the pod; later entries win. The agent
	// adds the device variables of the workload manager and PATH where it is
	// missing.
	Env        []corev1.EnvVar `json:"env,omitempty"`
	WorkingDir string          `json:"workingDir,omitempty"`
	Mounts     []Mount         `json:"mounts,omitempty"`
	// Stdin, StdinOnce and TTY are as in corev1.Container.
	Stdin     bool `json:"stdin,omitempty"`
	StdinOnce bool `json:"stdinOnce,omitempty"`
	TTY       bool `json:"tty,omitempty"`
	// RestartPolicy is the container's own (Always for a sidecar), or nil.
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy,omitempty"`
	// RestartPolicyRules come before it: the first that matches an exit code counts.
	RestartPolicyRules []corev1.ContainerRestartRule `json:"restartPolicyRules,omitempty"`

	// The probes have the API server's defaults filled in and name their ports
	// by number, but for names that the container does not have.
	StartupProbe   *corev1.Probe `json:"startupProbe,omitempty"`
	LivenessProbe  *corev1.Probe `json:"livenessProbe,omitempty"`
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// Lifecycle holds the hooks; ports as with probes.
	Lifecycle *corev1.Lifecycle `json:"lifecycle,omitempty"`

	// StorageLimit is what the container's logs may hold, a quantity of bytes; empty
	// for no limit.
	StorageLimit string `json:"storageLimit,omitempty"`

	TerminationMessagePath   string                          `json:"terminationMessagePath,omitempty"`
	TerminationMessagePolicy corev1.TerminationMessagePolicy `json:"terminationMessagePolicy,omitempty"`
}

// SSHD is a container whose command is sshd.
type SSHD struct {
	// Program is how the command calls it: Argv's first word, or a path in the line
	// that Argv gives to a shell.
	Program string `json:"program"`
	// AuthorizedKeys are the files of that name which the container mounts. Their
	// keys open the service besides the gang's own.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
}

// Mount puts a volume, or one path within it, at a path of the container.
type Mount struct {
	Volume   string `json:"volume"`
	Path     string `json:"path"`
	SubPath  string `json:"subPath,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Recursive makes a read-only mount so with all that the node has mounted below
	// it.
	Recursive bool `json:"recursive,omitempty"`
}

// Volume is a directory that a pod's containers share. Exactly one of its
// sources is set.
type Volume struct {
	Name string `json:"name"`
	// Files is the content of a ConfigMap, Secret, projected or downward API
	// volume. It is kept in memory on the HPC node.
	Files []File `json:"files,omitempty"`
	// EmptyDir is scratch space that lives as long as the pod.
	EmptyDir *EmptyDir `json:"emptyDir,omitempty"`
	// HostPath is a directory or file of the HPC node.
	HostPath string `json:"hostPath,omitempty"`
	// Host says what HostPath has to be; nil for anything that exists.
	Host *Host `json:"host,omitempty"`
}

// EmptyDir is a pod's scratch space.
type EmptyDir struct {
	Memory bool `json:"memory,omitempty"`
	// SizeLimit is what it may hold, a quantity of bytes as the pod wrote it
	// ("1Gi"): a pod that has more in it is evicted. Empty for no limit.
	SizeLimit string `json:"sizeLimit,omitempty"`
	// Mode is the directory's permission bits; nil for 0777.
	Mode *int32 `json:"mode,omitempty"`
}

// Host is what a path of the HPC node has to be.
type Host struct {
	// Type is what is there, or what is to be made there; empty for no matter
	// what.
	Type corev1.HostPathType `json:"type,omitempty"`
	// Allowed are the directories in one of which the path must lie once its links
	// are followed. The deepest one counts.
	Allowed []AllowedDir `json:"allowed"`
	// ReadOnly keeps all mounts of the volume from writing.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Mode is that of directories which are made, as chmod(1) counts it (0o2770); nil for
	// 0755 without what the umask takes.
	Mode *int32 `json:"mode,omitempty"`
}

// AllowedDir is a directory of the HPC node that pods may mount, with all below it.
type AllowedDir struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// File is one file of a volume.
type File struct {
	// Path is relative to the volume and stays inside it.
	Path string `json:"path"`
	Mode int32  `json:"mode"` // permission bits, e.g. 0644
	Data []byte `json:"data"`
}

// SSH is what a slot's SSH service and its client need. All keys belong to
// this allocation alone.
type SSH struct {
	// HostKey and ClientKey are private keys (OpenSSH PEM): the service's own
	// and the one that opens all services of the gang.
	HostKey   []byte `json:"hostKey"`
	ClientKey []byte `json:"clientKey"`
	// HostPublicKey and ClientPublicKey are their public halves (one
	// authorized_keys line each). All services of a gang have the same host key.
	HostPublicKey   []byte `json:"hostPublicKey"`
	ClientPublicKey []byte `json:"clientPublicKey"`
}
