package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// TrainingRuntime is a template for the TrainJobs of one namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
type TrainingRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the template.
	// +optional
	Spec TrainingRuntimeSpec `json:"spec,omitzero"`
}

// TrainingRuntimeList is a list of TrainingRuntimes.
//
// +kubebuilder:object:root=true
type TrainingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainingRuntime `json:"items"`
}

// ClusterTrainingRuntime is a template for the TrainJobs of all namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
type ClusterTrainingRuntime struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the template.
	// +optional
	Spec TrainingRuntimeSpec `json:"spec,omitzero"`
}

// ClusterTrainingRuntimeList is a list of ClusterTrainingRuntimes.
//
// +kubebuilder:object:root=true
type ClusterTrainingRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterTrainingRuntime `json:"items"`
}

// TrainingRuntimeSpec is what TrainJobs have in common.
//
// +kubebuilder:validation:MinProperties=1
type TrainingRuntimeSpec struct {
	// mlPolicy prepares the template for one framework.
	// +optional
	MLPolicy *MLPolicy `json:"mlPolicy,omitempty"`

	// podGroupPolicy asks for gang scheduling inside the cluster.
	// +optional
	PodGroupPolicy *PodGroupPolicy `json:"podGroupPolicy,omitempty"`

	// template of the JobSet.
	// +optional
	Template JobSetTemplateSpec `json:"template,omitzero"`
}

// JobSetTemplateSpec is a JobSet without its name.
//
// +kubebuilder:validation:MinProperties=1
type JobSetTemplateSpec struct {
	// metadata gives the JobSet labels and annotations.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the JobSet's.
	// +optional
	Spec jobsetv1alpha2.JobSetSpec `json:"spec,omitempty"`
}

// MLPolicy prepares the template for one framework.
//
// +kubebuilder:validation:XValidation:rule="[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost),has(self.flux)].filter(x, x).size() <= 1", message="Only one of the policy can be configured"
type MLPolicy struct {
	// numNodes is the number of training nodes, 1 if it is not given.
	// +optional
	NumNodes *int32 `json:"numNodes,omitempty"`

	MLPolicySource `json:",inline"`
}

// MLPolicySource is the framework; at most one is given.
type MLPolicySource struct {
	// torch prepares for torchrun.
	// +optional
	Torch *TorchMLPolicySource `json:"torch,omitempty"`
	// mpi prepares for mpirun: hostfile and SSH keys.
	// +optional
	MPI *MPIMLPolicySource `json:"mpi,omitempty"`
	// flux starts a Flux instance in the pods.
	// +optional
	Flux *FluxMLPolicySource `json:"flux,omitempty"`
	// jax prepares for jax.distributed.
	// +optional
	JAX *JAXMLPolicySource `json:"jax,omitempty"`
	// xgboost prepares for xgboost's collective.
	// +optional
	XGBoost *XGBoostMLPolicySource `json:"xgboost,omitempty"`
}

// TorchMLPolicySource prepares for torchrun.
type TorchMLPolicySource struct {
	// envInjection gives further containers torchrun's variables.
	// +optional
	EnvInjection *EnvInjection `json:"envInjection,omitempty"`
}

// EnvInjection names the containers that get torchrun's variables.
type EnvInjection struct {
	// targets are the containers, by replicated job.
	// +optional
	// +listType=map
	// +listMapKey=jobName
	// +kubebuilder:validation:MaxItems=16
	Targets []EnvInjectionTarget `json:"targets,omitempty"`
}

// EnvInjectionTarget names containers of one replicated job.
type EnvInjectionTarget struct {
	// jobName is the replicated job's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	JobName string `json:"jobName,omitempty"`

	// containerNames are containers or init containers of its pods.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, c == 'node')", message="containerNames must not include the main node container because PET_* envs are always injected into it"
	ContainerNames []string `json:"containerNames,omitempty"`
}

// JAXMLPolicySource prepares for jax.distributed.
type JAXMLPolicySource struct{}

// XGBoostMLPolicySource prepares for xgboost's collective.
type XGBoostMLPolicySource struct{}

// MPIMLPolicySource prepares for mpirun.
type MPIMLPolicySource struct {
	// numProcPerNode is the number of processes, and slots, of each node.
	// +optional
	// +kubebuilder:default=1
	NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`

	// mpiImplementation decides the hostfile's format and the launcher's
	// variables.
	// +optional
	// +kubebuilder:default=OpenMPI
	// +kubebuilder:validation:Enum=OpenMPI;Intel;MPICH;""
	MPIImplementation *MPIImplementation `json:"mpiImplementation,omitempty"`

	// sshAuthMountPath is where the SSH keys are mounted.
	// +optional
	// +kubebuilder:default=/root/.ssh
	// +kubebuilder:validation:MaxLength=4096
	SSHAuthMountPath *string `json:"sshAuthMountPath,omitempty"`

	// runLauncherAsNode makes the launcher one of the training nodes.
	// +optional
	// +kubebuilder:default=false
	RunLauncherAsNode *bool `json:"runLauncherAsNode,omitempty"`
}

// MPIImplementation names an implementation of MPI.
type MPIImplementation string

// The implementations of MPI.
const (
	MPIImplementationOpenMPI MPIImplementation = "OpenMPI"
	MPIImplementationIntel   MPIImplementation = "Intel"
	MPIImplementationMPICH   MPIImplementation = "MPICH"
)

// FluxMLPolicySource starts a Flux instance in the pods.
type FluxMLPolicySource struct {
	// numProcPerNode is the number of tasks of each node.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="NumProcPerNode in fluxPolicy must be >= 1"
	NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`
}

// PodGroupPolicy asks for gang scheduling inside the cluster.
type PodGroupPolicy struct {
	PodGroupPolicySource `json:",inline"`
}

// PodGroupPolicySource is the scheduler.
type PodGroupPolicySource struct {
	// coscheduling is the scheduler-plugins' PodGroup.
	// +optional
	Coscheduling *CoschedulingPodGroupPolicySource `json:"coscheduling,omitempty"`
	// volcano is Volcano's PodGroup.
	// +optional
	Volcano *VolcanoPodGroupPolicySource `json:"volcano,omitempty"`
}

// CoschedulingPodGroupPolicySource is the scheduler-plugins' PodGroup.
type CoschedulingPodGroupPolicySource struct {
	// scheduleTimeoutSeconds is how long the scheduler waits for the whole
	// group, in seconds.
	// +optional
	// +kubebuilder:default=60
	ScheduleTimeoutSeconds *int32 `json:"scheduleTimeoutSeconds,omitempty"`
}

// VolcanoPodGroupPolicySource is Volcano's PodGroup.
type VolcanoPodGroupPolicySource struct {
	// networkTopology keeps the group's pods near each other.
	// +optional
	NetworkTopology *NetworkTopologySpec `json:"networkTopology,omitempty"`
}

// NetworkTopologySpec is scheduling.volcano.sh/v1beta1's type of that name.
type NetworkTopologySpec struct {
	// mode says whether the constraint must be met.
	// +optional
	// +kubebuilder:default=hard
	// +kubebuilder:validation:Enum=hard;soft
	Mode NetworkTopologyMode `json:"mode,omitempty"`

	// highestTierAllowed is the highest tier that the group may cross.
	// +optional
	// +kubebuilder:default=1
	HighestTierAllowed *int `json:"highestTierAllowed,omitempty"`
}

// NetworkTopologyMode says whether a topology constraint must be met.
type NetworkTopologyMode string
