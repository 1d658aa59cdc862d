package framework

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// Plugin takes part in one or more phases, by implementing their interfaces.
type Plugin interface {
	// Name is unique among the plugins.
	Name() string
}

// Startup phase.

// Watcher names what else has to be watched for TrainJobs to be reconciled.
type Watcher interface {
	Plugin
	Watches() []Watch
}

// Watch is a kind of object whose changes matter to TrainJobs.
type Watch struct {
	// Object says the kind. A *metav1.PartialObjectMetadata keeps only the
	// metadata in memory.
	Object client.Object
	// Map finds the TrainJobs that an object's change concerns; nil means the
	// TrainJob that controls it.
	Map handler.MapFunc
	// Optional watches are left out when the API server does not know the kind.
	Optional bool
}

// MetadataOf is the object to watch for the metadata of a kind alone.
func MetadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// Owned are the watches of core kinds of what a plugin builds, so that it is made
// again when somebody deletes it. Whose it is the owner says; the metadata has that.
func Owned(kinds ...string) []Watch {
	watches := make([]Watch, len(kinds))
	for i, kind := range kinds {
		watches[i].Object = MetadataOf(corev1.SchemeGroupVersion.WithKind(kind))
	}
	return watches
}

// PreExecution phase: admission.

// Validator refuses TrainJobs at admission. Old is nil for a new TrainJob. Info
// is that of the new one before any plugin has enforced anything.
type Validator interface {
	Plugin
	Validate(ctx context.Context, info *Info, old, new *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList)
}

// Build phase, in this order.

// MLPolicyEnforcer prepares the template for a framework: pod counts,
// environments, ports, volumes.
type MLPolicyEnforcer interface {
	Plugin
	EnforceMLPolicy(info *Info, trainJob *v1alpha1.TrainJob) error
}

// PodGroupPolicyEnforcer prepares the template for a gang scheduler.
type PodGroupPolicyEnforcer interface {
	Plugin
	EnforcePodGroupPolicy(info *Info, trainJob *v1alpha1.TrainJob) error
}

// PodNetworkIdentifier works out the pods' host names.
type PodNetworkIdentifier interface {
	Plugin
	IdentifyPodNetwork(info *Info, trainJob *v1alpha1.TrainJob) error
}

// Placer decides on which nodes the pods run. The KEP has no such point: the
// HPC side is ours.
type Placer interface {
	Plugin
	Place(info *Info, trainJob *v1alpha1.TrainJob) error
}

// ComponentBuilder makes objects. It must not change info, but for the plugin
// that owns the template, which comes last of those that build from it.
type ComponentBuilder interface {
	Plugin
	Build(ctx context.Context, info *Info, trainJob *v1alpha1.TrainJob) ([]Component, error)
}

// PostExecution phase.

// StatusReporter reads a TrainJob's status off its JobSet. It returns the
// conditions it is sure of and the counts; it changes neither argument.
type StatusReporter interface {
	Plugin
	Status(trainJob *v1alpha1.TrainJob, jobSet *jobsetv1alpha2.JobSet) v1alpha1.TrainJobStatus
}
