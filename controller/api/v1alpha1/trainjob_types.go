package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrainJob is one training: a runtime, and what this job has different.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tj
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[-1:].type`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", message="metadata.name must match RFC 1035 DNS label format"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63", message="metadata.name must be no more than 63 characters"
type TrainJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the object's.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what is wanted.
	// +optional
	Spec TrainJobSpec `json:"spec,omitzero"`
	// status is what is observed.
	// +optional
	Status TrainJobStatus `json:"status,omitzero"`
}

// TrainJobList is a list of TrainJobs.
//
// +kubebuilder:object:root=true
type TrainJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TrainJob `json:"items"`
}

// TrainJobSpec says what to train with which runtime.
type TrainJobSpec struct {
	// runtimeRef names the runtime.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable: delete the TrainJob first, or give this one another name"
	RuntimeRef RuntimeRef `json:"runtimeRef,omitzero"`

	// initializer says which dataset and model to fetch before the training.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	Initializer *Initializer `json:"initializer,omitempty"`

	// trainer says what each training node runs.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable: delete the TrainJob first, or give this one another name"
	Trainer *Trainer `json:"trainer,omitempty"`

	// runtimePatches change the runtime's template for this job. They apply in
	// list order, later ones win.
	// +optional
	// +listType=map
	// +listMapKey=manager
	// +kubebuilder:validation:MaxItems=16
	RuntimePatches []RuntimePatch `json:"runtimePatches,omitempty"`

	// suspend keeps the job from running.
	// +optional
	// +kubebuilder:default=false
	Suspend *bool `json:"suspend,omitempty"`

	// activeDeadlineSeconds is how long the job may take, in seconds since its
	// creation or its last resumption; then it fails.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds,omitempty"`

	// managedBy names the controller that carries the job out.
	// +optional
	// +kubebuilder:default="trainer.kubeflow.org/trainjob-controller"
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self in ['trainer.kubeflow.org/trainjob-controller', 'kueue.x-k8s.io/multikueue']", message="ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	ManagedBy *string `json:"managedBy,omitempty"`
}

// RuntimeRef names a TrainingRuntime or a ClusterTrainingRuntime.
type RuntimeRef struct {
	// name is the runtime's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// apiGroup is the runtime's.
	// +optional
	// +kubebuilder:default="trainer.kubeflow.org"
	// +kubebuilder:validation:MaxLength=253
	APIGroup *string `json:"apiGroup,omitempty"`

	// kind is ClusterTrainingRuntime or TrainingRuntime.
	// +optional
	// +kubebuilder:default="ClusterTrainingRuntime"
	// +kubebuilder:validation:MaxLength=253
	Kind *string `json:"kind,omitempty"`
}

// Initializer says which dataset and which model to fetch.
type Initializer struct {
	// dataset is fetched to /workspace/dataset.
	// +optional
	Dataset *DatasetInitializerSpec `json:"dataset,omitempty"`
	// model is fetched to /workspace/model.
	// +optional
	Model *ModelInitializerSpec `json:"model,omitempty"`
}

// DatasetInitializerSpec is a dataset's source.
type DatasetInitializerSpec struct {
	// storageUri is where the dataset is, as s3:// or hf://.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",message="storageUri may be empty, or it must be a valid URI (scheme://...)"
	StorageURI *string `json:"storageUri,omitempty"`

	// env is added to the dataset initializer's container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []corev1.EnvVar `json:"env,omitempty"`

	// secretRef names a Secret in the job's namespace whose keys become
	// environment variables, credentials for the most part.
	// +optional
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

// ModelInitializerSpec is a model's source.
type ModelInitializerSpec struct {
	// storageUri is where the model is, as hf:// or s3://.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')",message="storageUri may be empty, or it must be a valid URI (scheme://...)"
	StorageURI *string `json:"storageUri,omitempty"`

	// env is added to the model initializer's container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []corev1.EnvVar `json:"env,omitempty"`

	// secretRef names a Secret in the job's namespace whose keys become
	// environment variables, credentials for the most part.
	// +optional
	SecretRef *corev1.LocalObjectReference `json:"secretRef,omitempty"`
}

// Trainer says what each training node runs, and how many there are.
type Trainer struct {
	// image of the training container.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	Image *string `json:"image,omitempty"`

	// command of the training container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=1048576
	Command []string `json:"command,omitempty"`

	// args of the training container's command.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=1048576
	Args []string `json:"args,omitempty"`

	// env of the training container, merged into the runtime's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []corev1.EnvVar `json:"env,omitempty"`

	// numNodes is the number of training nodes.
	// +optional
	NumNodes *int32 `json:"numNodes,omitempty"`

	// resourcesPerNode are the resources of each training node, merged into the
	// runtime's.
	// +optional
	ResourcesPerNode *corev1.ResourceRequirements `json:"resourcesPerNode,omitempty"`

	// numProcPerNode is the number of processes on each training node.
	// +optional
	NumProcPerNode *int32 `json:"numProcPerNode,omitempty"`
}
