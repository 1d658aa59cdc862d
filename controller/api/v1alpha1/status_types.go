package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TrainJobStatus is what is observed of a TrainJob.
//
// +kubebuilder:validation:MinProperties=1
type TrainJobStatus struct {
	// conditions are Suspended, Complete and Failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// jobsStatus counts the Jobs of each replicated job.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	JobsStatus []JobStatus `json:"jobsStatus,omitempty"`

	// trainerStatus is what the training says of itself. It needs the feature
	// gate TrainJobStatus.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.lastUpdatedTime)",message="lastUpdatedTime is required when trainerStatus is present"
	TrainerStatus *TrainerStatus `json:"trainerStatus,omitempty"`
}

// JobStatus counts the Jobs (not the pods) of one replicated job.
type JobStatus struct {
	// name is the replicated job's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// ready counts the Jobs whose pods are all ready or succeeded.
	// +required
	// +kubebuilder:validation:Minimum=0
	Ready *int32 `json:"ready,omitempty"`

	// succeeded counts the Jobs that have completed.
	// +required
	// +kubebuilder:validation:Minimum=0
	Succeeded *int32 `json:"succeeded,omitempty"`

	// failed counts the Jobs that have failed.
	// +required
	// +kubebuilder:validation:Minimum=0
	Failed *int32 `json:"failed,omitempty"`

	// active counts the Jobs that have a pod pending or running.
	// +required
	// +kubebuilder:validation:Minimum=0
	Active *int32 `json:"active,omitempty"`

	// suspended counts the Jobs that are suspended.
	// +required
	// +kubebuilder:validation:Minimum=0
	Suspended *int32 `json:"suspended,omitempty"`
}

// TrainerStatus is what a training says of itself.
type TrainerStatus struct {
	// progressPercentage is how much of the training is done.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ProgressPercentage *int32 `json:"progressPercentage,omitempty"`

	// estimatedRemainingSeconds is how long the training still takes, in seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EstimatedRemainingSeconds *int32 `json:"estimatedRemainingSeconds,omitempty"`

	// metrics are the training's figures.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Metrics []Metric `json:"metrics,omitempty"`

	// lastUpdatedTime is when the training said so.
	// +optional
	LastUpdatedTime metav1.Time `json:"lastUpdatedTime,omitzero"`
}

// Metric is one figure of a training.
type Metric struct {
	// name of the figure.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// value of the figure.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Value string `json:"value,omitempty"`
}

// UpdateTrainJobStatusRequest is what a training posts to the status server.
type UpdateTrainJobStatusRequest struct {
	// trainerStatus is the status to show.
	// +optional
	TrainerStatus *TrainerStatus `json:"trainerStatus,omitempty"`
}
