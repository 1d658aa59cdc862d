package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/runtimes"
)

// trainJobValidator refuses TrainJobs that could not be built.
type trainJobValidator struct {
	loader   runtimes.Loader
	live     client.Reader // not cached: the cache has only the metadata of ConfigMaps
	pipeline *pipeline.Pipeline
	pods     PodChecker
}

var _ admission.Validator[*v1alpha1.TrainJob] = (*trainJobValidator)(nil)

// ValidateCreate asks the pipeline whether the TrainJob can be built.
func (v *trainJobValidator) ValidateCreate(ctx context.Context, trainJob *v1alpha1.TrainJob) (admission.Warnings, error) {
	runtime, err := v.loader.Runtime(ctx, trainJob)
	if err != nil {
		return nil, refusal(trainJob, err)
	}
	warnings, err := v.validate(ctx, runtime, nil, trainJob)
	if err == nil {
		return warnings, nil
	}
	// The cache may not have heard yet of a runtime that was changed just now,
	// perhaps in the same kubectl apply.
	fresh, freshErr := runtimes.Loader{Reader: v.live}.Runtime(ctx, trainJob)
	if freshErr != nil || fresh.GetResourceVersion() == runtime.GetResourceVersion() {
		return warnings, err
	}
	return v.validate(ctx, fresh, nil, trainJob)
}

// ValidateUpdate asks the pipeline whether the changed TrainJob can be built.
//
// Kubeflow Trainer asks that with the runtime as it is now, so that an edited
// runtime, or one that is gone, keeps a TrainJob from being resumed, labelled or
// rid of a finalizer. Here the runtime is the one that the TrainJob will be built
// from, and a change that asks for nothing new is admitted whatever was wrong
// before.
func (v *trainJobValidator) ValidateUpdate(ctx context.Context, old, changed *v1alpha1.TrainJob) (admission.Warnings, error) {
	if changed.DeletionTimestamp != nil {
		return nil, nil // nothing will be built from it any more
	}
	runtime, err := v.runtime(ctx, changed)
	if err == nil {
		return v.validate(ctx, runtime, old, changed)
	}
	err = refusal(changed, err)
	if apierrors.IsInternalError(err) || asksForMore(old, changed) {
		return nil, err
	}
	return admission.Warnings{err.Error()}, nil
}

// ValidateDelete admits.
func (v *trainJobValidator) ValidateDelete(context.Context, *v1alpha1.TrainJob) (admission.Warnings, error) {
	return nil, nil
}

// runtime is the one that an existing TrainJob is built from: its snapshot or, if
// it has none yet, the runtime as it is now.
func (v *trainJobValidator) runtime(ctx context.Context, trainJob *v1alpha1.TrainJob) (client.Object, error) {
	snapshot := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: trainJob.Namespace, Name: runtimes.SnapshotName(trainJob)}
	if err := v.live.Get(ctx, key, snapshot); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the snapshot of the runtime: %w", err)
	}
	// A ConfigMap that was not found is nobody's either.
	if !metav1.IsControlledBy(snapshot, trainJob) {
		return v.loader.Runtime(ctx, trainJob)
	}
	runtime, err := runtimes.DecodeSnapshot(trainJob, snapshot)
	if err != nil {
		// The reconciler reports it, on the TrainJob where it can be seen.
		log.FromContext(ctx).Info("validating against the runtime as it is now", "error", err.Error())
		return v.loader.Runtime(ctx, trainJob)
	}
	return runtime, nil
}

// validate asks the pipeline. Old is nil for a new TrainJob.
func (v *trainJobValidator) validate(ctx context.Context, runtime client.Object, old, changed *v1alpha1.TrainJob) (admission.Warnings, error) {
	namespace, err := v.loader.Namespace(ctx, changed)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	in, err := runtimes.FromRuntime(changed, runtime, namespace)
	if err != nil {
		return nil, err
	}
	var warnings admission.Warnings
	if cluster, ok := runtime.(*v1alpha1.ClusterTrainingRuntime); ok {
		warnings = append(warnings, deprecation("Referenced ", cluster)...)
	}
	more, errs := v.pipeline.Validate(ctx, in, old)
	warnings = append(warnings, more...)
	if len(errs) > 0 && old != nil && !asksForMore(old, changed) {
		in.TrainJob = old
		_, known := v.pipeline.Validate(ctx, in, old)
		more, errs = forgive(errs, known)
		warnings = append(warnings, more...)
	}
	if len(errs) == 0 && (old == nil || asksForMore(old, changed)) {
		warnings = append(warnings, v.podWarnings(ctx, in)...)
	}
	return warnings, denial(errs)
}

// denial is a 403 that lists the errors, or a 500 if something could not be
// checked: then another try may do.
func denial(errs field.ErrorList) error {
	err := errs.ToAggregate()
	if slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Type == field.ErrorTypeInternal }) {
		return apierrors.NewInternalError(err)
	}
	return err
}

// forgive turns the errors that were known before into warnings.
func forgive(errs, known field.ErrorList) (admission.Warnings, field.ErrorList) {
	before := sets.New[string]()
	for _, err := range known {
		before.Insert(err.Error())
	}
	var warnings admission.Warnings
	var left field.ErrorList
	for _, err := range errs {
		if before.Has(err.Error()) {
			warnings = append(warnings, err.Error())
		} else {
			left = append(left, err)
		}
	}
	return warnings, left
}

// asksForMore tells whether a change of a TrainJob is about more than its
// metadata and whether it is suspended.
func asksForMore(old, changed *v1alpha1.TrainJob) bool {
	a, b := old.Spec, changed.Spec
	a.Suspend, b.Suspend = nil, nil
	return !equality.Semantic.DeepEqual(a, b)
}

// refusal is what a user is told when there is no runtime: 403, in Kubeflow
// Trainer's words (with its capital R for cluster runtimes). A runtime that could
// not be read is no fault of the TrainJob's, so that is a 500.
func refusal(trainJob *v1alpha1.TrainJob, err error) error {
	if errors.Is(err, runtimes.ErrUnsupportedRuntime) {
		return err
	}
	if !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(err)
	}
	name, runtime := "RuntimeRef", "clusterTrainingRuntime"
	if runtimes.GroupKind(trainJob.Spec.RuntimeRef).Kind == v1alpha1.TrainingRuntimeKind {
		name, runtime = "runtimeRef", "trainingRuntime"
	}
	return field.Invalid(field.NewPath("spec", name), trainJob.Spec.RuntimeRef,
		fmt.Sprintf("%v: specified %s must be created before the TrainJob is created", err, runtime))
}
