package v1alpha1

// The kinds.
const (
	TrainJobKind               = "TrainJob"
	TrainingRuntimeKind        = "TrainingRuntime"
	ClusterTrainingRuntimeKind = "ClusterTrainingRuntime"
)

// Labels of Kubeflow's that have a meaning here.
const (
	// LabelAncestor marks the Job template of a replicated job with the part of
	// the TrainJob that it carries out: one of the Ancestor values. The KEP's
	// examples have it on the pod template.
	LabelAncestor = "trainer.kubeflow.org/trainjob-ancestor-step"
	// LabelFramework names a runtime's framework for the SDK.
	LabelFramework = "trainer.kubeflow.org/framework"
	// LabelSupport tells with the value SupportDeprecated that a runtime will go.
	LabelSupport = "trainer.kubeflow.org/support"
	// LabelWebhookValidation keeps a runtime from being validated, with the
	// value "disabled".
	LabelWebhookValidation = "trainer.kubeflow.org/webhook-validation"
	SupportDeprecated      = "deprecated"
)

// Values of LabelAncestor; those of the initializers are also the names of
// their replicated jobs and containers.
const (
	AncestorTrainer    = "trainer"
	DatasetInitializer = "dataset-initializer"
	ModelInitializer   = "model-initializer"
)

// Names with a meaning inside a runtime's template.
const (
	// JobNode and JobLauncher are replicated jobs; JobNode's name is also that
	// of the container that trains.
	JobNode       = "node"
	JobLauncher   = "launcher"
	ContainerNode = "node"
	// ContainerTrainer is what the KEP's examples call the container that trains.
	ContainerTrainer = "trainer"
	// VolumeInitializer is the volume that initializers fill.
	VolumeInitializer = "initializer"
	// EnvStorageURI tells an initializer where its data is.
	EnvStorageURI = "STORAGE_URI"
	// TrainerPort is where rank 0 of a distributed training listens.
	TrainerPort int32 = 29500
)

// Types and reasons of a TrainJob's conditions. There are no others: the SDK
// takes a TrainJob for running only while it has none.
const (
	TrainJobSuspended = "Suspended"
	TrainJobComplete  = "Complete"
	TrainJobFailed    = "Failed"

	ReasonSuspended           = "Suspended"
	ReasonResumed             = "Resumed"
	ReasonRuntimeNotSupported = "TrainingRuntimeNotSupported"
	ReasonDeadlineExceeded    = "DeadlineExceeded"
)

// Values of spec.managedBy.
const (
	ManagedByController = "trainer.kubeflow.org/trainjob-controller"
	ManagedByMultiKueue = "kueue.x-k8s.io/multikueue"
)

// FieldOwner owns the fields of all objects that are built for a TrainJob, and
// FieldOwnerStatus those that the status server writes.
const (
	FieldOwner       = "trainer"
	FieldOwnerStatus = "trainer-status"
)
