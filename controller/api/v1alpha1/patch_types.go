package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RuntimePatch is one manager's change of the runtime's template.
type RuntimePatch struct {
	// manager owns the patch: "domain/path", such as kueue.x-k8s.io/manager.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	Manager string `json:"manager,omitempty"`

	// time is when the patch was last changed; admission sets it.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// trainingRuntimeSpec is the change.
	// +optional
	TrainingRuntimeSpec *TrainingRuntimeSpecPatch `json:"trainingRuntimeSpec,omitempty"`
}

// TrainingRuntimeSpecPatch changes a runtime's spec.
type TrainingRuntimeSpecPatch struct {
	// template changes the JobSet's template.
	// +optional
	Template *JobSetTemplatePatch `json:"template,omitempty"`
}

// JobSetTemplatePatch changes a JobSet's template.
type JobSetTemplatePatch struct {
	// metadata adds labels and annotations to the JobSet.
	// +optional
	Metadata *metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec changes the JobSet's spec.
	// +optional
	Spec *JobSetSpecPatch `json:"spec,omitempty"`
}

// JobSetSpecPatch changes a JobSet's spec.
type JobSetSpecPatch struct {
	// replicatedJobs are changed by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	ReplicatedJobs []ReplicatedJobPatch `json:"replicatedJobs,omitempty"`
}

// ReplicatedJobPatch changes one replicated job.
type ReplicatedJobPatch struct {
	// name of the replicated job.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// template changes its Jobs.
	// +optional
	Template *JobTemplatePatch `json:"template,omitempty"`
}

// JobTemplatePatch changes a Job's template.
type JobTemplatePatch struct {
	// metadata is merged into the Job's.
	// +optional
	Metadata *metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec changes the Job's spec.
	// +optional
	Spec *JobSpecPatch `json:"spec,omitempty"`
}

// JobSpecPatch changes a Job's spec.
type JobSpecPatch struct {
	// template changes the Job's pods.
	// +optional
	Template *PodTemplatePatch `json:"template,omitempty"`
}

// PodTemplatePatch changes a pod's template.
type PodTemplatePatch struct {
	// metadata is merged into the pod's.
	// +optional
	Metadata *metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec changes the pod's spec.
	// +optional
	Spec *PodSpecPatch `json:"spec,omitempty"`
}

// PodSpecPatch holds the fields of a pod that may be changed.
type PodSpecPatch struct {
	// serviceAccountName of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	ServiceAccountName *string `json:"serviceAccountName,omitempty"`

	// volumes are merged by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// initContainers are changed by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	InitContainers []ContainerPatch `json:"initContainers,omitempty"`

	// containers are changed by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	Containers []ContainerPatch `json:"containers,omitempty"`

	// imagePullSecrets are merged by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// securityContext is merged by field.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`

	// nodeSelector is merged by key.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// affinity is merged by field.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// tolerations replace the runtime's.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// schedulingGates are merged by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	SchedulingGates []corev1.PodSchedulingGate `json:"schedulingGates,omitempty"`

	// terminationGracePeriodSeconds of the pod, in seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self == oldSelf", message="field is immutable"
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// ContainerPatch holds the fields of a container that may be changed.
type ContainerPatch struct {
	// name of the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// env is merged by name. Containers that the TrainJob's own sections set
	// are refused.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Env []corev1.EnvVar `json:"env,omitempty"`

	// volumeMounts are merged by mount path.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// securityContext is merged by field.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
}
