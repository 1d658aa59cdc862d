package runtimes

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/pipeline"
)

// ErrUnsupportedRuntime is the error of a runtimeRef whose group and kind are
// not those of a runtime.
var ErrUnsupportedRuntime = errors.New("unsupported runtime")

// GroupKind is the kind of the runtime that ref names. What is nil has the
// CRD's default; an empty group is one that nobody has.
func GroupKind(ref v1alpha1.RuntimeRef) schema.GroupKind {
	return schema.GroupKind{
		Group: ptr.Deref(ref.APIGroup, v1alpha1.GroupVersion.Group),
		Kind:  ptr.Deref(ref.Kind, v1alpha1.ClusterTrainingRuntimeKind),
	}
}

// Supported is nil, or an ErrUnsupportedRuntime that names the kind as Kubeflow
// Trainer does.
func Supported(ref v1alpha1.RuntimeRef) error {
	_, err := newRuntime(ref)
	return err
}

// Key is the name of the TrainJob's runtime; the namespace is empty for a
// ClusterTrainingRuntime.
func Key(trainJob *v1alpha1.TrainJob) client.ObjectKey {
	key := client.ObjectKey{Name: trainJob.Spec.RuntimeRef.Name}
	if GroupKind(trainJob.Spec.RuntimeRef).Kind == v1alpha1.TrainingRuntimeKind {
		key.Namespace = trainJob.Namespace
	}
	return key
}

// newRuntime is an empty object of the kind that ref names.
func newRuntime(ref v1alpha1.RuntimeRef) (client.Object, error) {
	kinds := map[schema.GroupKind]client.Object{
		{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.TrainingRuntimeKind}:        &v1alpha1.TrainingRuntime{},
		{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.ClusterTrainingRuntimeKind}: &v1alpha1.ClusterTrainingRuntime{},
	}
	kind := GroupKind(ref)
	runtime, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrUnsupportedRuntime, kind)
	}
	return runtime, nil
}

// kindOf is the kind of a runtime, whose own TypeMeta a typed client leaves
// empty.
func kindOf(runtime client.Object) string {
	if _, namespaced := runtime.(*v1alpha1.TrainingRuntime); namespaced {
		return v1alpha1.TrainingRuntimeKind
	}
	return v1alpha1.ClusterTrainingRuntimeKind
}

// Loader reads what a TrainJob is built from.
type Loader struct {
	Reader client.Reader
}

// Input reads the TrainJob's runtime, as it is now, and the namespace. The
// errors are those of Runtime and Namespace.
func (l Loader) Input(ctx context.Context, trainJob *v1alpha1.TrainJob) (pipeline.Input, error) {
	runtime, err := l.Runtime(ctx, trainJob)
	if err != nil {
		return pipeline.Input{}, err
	}
	namespace, err := l.Namespace(ctx, trainJob)
	if err != nil {
		return pipeline.Input{}, err
	}
	return FromRuntime(trainJob, runtime, namespace)
}

// Runtime reads the TrainJob's runtime as it is now. The error is an
// ErrUnsupportedRuntime, or apierrors.IsNotFound of it is true, or the runtime
// could not be read.
func (l Loader) Runtime(ctx context.Context, trainJob *v1alpha1.TrainJob) (client.Object, error) {
	runtime, err := newRuntime(trainJob.Spec.RuntimeRef)
	if err != nil {
		return nil, err
	}
	err = l.Reader.Get(ctx, Key(trainJob), runtime)
	switch {
	case apierrors.IsNotFound(err):
		return nil, err // says which; admission quotes it as Kubeflow Trainer does
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", kindOf(runtime), trainJob.Spec.RuntimeRef.Name, err)
	}
	return runtime, nil
}

// Namespace reads the metadata of the TrainJob's namespace.
func (l Loader) Namespace(ctx context.Context, trainJob *v1alpha1.TrainJob) (metav1.ObjectMeta, error) {
	// Metadata only, so that a cache holds no more of all namespaces.
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := l.Reader.Get(ctx, client.ObjectKey{Name: trainJob.Namespace}, namespace); err != nil {
		return metav1.ObjectMeta{}, fmt.Errorf("reading the namespace of TrainJob %s: %w", trainJob.Name, err)
	}
	return namespace.ObjectMeta, nil
}

// FromRuntime is the pipeline's input for a runtime that has been read already,
// as from a snapshot. Objects are shared with the arguments, which the pipeline
// does not change.
func FromRuntime(trainJob *v1alpha1.TrainJob, runtime client.Object, namespace metav1.ObjectMeta) (pipeline.Input, error) {
	in := pipeline.Input{TrainJob: trainJob, NamespaceMeta: namespace}
	switch r := runtime.(type) {
	case *v1alpha1.TrainingRuntime:
		in.RuntimeMeta, in.Runtime = r.ObjectMeta, r.Spec
	case *v1alpha1.ClusterTrainingRuntime:
		in.RuntimeMeta, in.Runtime = r.ObjectMeta, r.Spec
	default:
		return pipeline.Input{}, fmt.Errorf("%w: %T", ErrUnsupportedRuntime, runtime)
	}
	return in, nil
}
