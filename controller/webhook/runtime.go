package webhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// deprecationPolicy is where Kubeflow Trainer explains what becomes of deprecated
// runtimes.
const deprecationPolicy = "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"

// trainingRuntimeValidator refuses new TrainingRuntimes that break the rules.
// Kubeflow Trainer lets them be changed into anything.
type trainingRuntimeValidator struct{}

var _ admission.Validator[*v1alpha1.TrainingRuntime] = trainingRuntimeValidator{}

// ValidateCreate applies the rules.
func (trainingRuntimeValidator) ValidateCreate(_ context.Context, runtime *v1alpha1.TrainingRuntime) (admission.Warnings, error) {
	return doubts(&runtime.Spec), faults(&runtime.Spec).ToAggregate()
}

// ValidateUpdate admits.
func (trainingRuntimeValidator) ValidateUpdate(_ context.Context, _, changed *v1alpha1.TrainingRuntime) (admission.Warnings, error) {
	return doubts(&changed.Spec), nil
}

// ValidateDelete admits.
func (trainingRuntimeValidator) ValidateDelete(context.Context, *v1alpha1.TrainingRuntime) (admission.Warnings, error) {
	return nil, nil
}

// clusterTrainingRuntimeValidator refuses ClusterTrainingRuntimes that break the
// rules.
type clusterTrainingRuntimeValidator struct{}

var _ admission.Validator[*v1alpha1.ClusterTrainingRuntime] = clusterTrainingRuntimeValidator{}

// ValidateCreate applies the rules.
func (clusterTrainingRuntimeValidator) ValidateCreate(_ context.Context, runtime *v1alpha1.ClusterTrainingRuntime) (admission.Warnings, error) {
	warnings := append(deprecation("", runtime), doubts(&runtime.Spec)...)
	return warnings, faults(&runtime.Spec).ToAggregate()
}

// ValidateUpdate applies the rules if the spec changes: labels and finalizers can
// be changed whatever is wrong with it.
func (clusterTrainingRuntimeValidator) ValidateUpdate(_ context.Context, old, changed *v1alpha1.ClusterTrainingRuntime) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(old.Spec, changed.Spec) {
		return nil, nil
	}
	return doubts(&changed.Spec), faults(&changed.Spec).ToAggregate()
}

// ValidateDelete admits.
func (clusterTrainingRuntimeValidator) ValidateDelete(context.Context, *v1alpha1.ClusterTrainingRuntime) (admission.Warnings, error) {
	return nil, nil
}

// deprecation is the warning of a runtime that is labelled as deprecated, in
// Kubeflow Trainer's words.
func deprecation(prefix string, runtime *v1alpha1.ClusterTrainingRuntime) admission.Warnings {
	if runtime.Labels[v1alpha1.LabelSupport] != v1alpha1.SupportDeprecated {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%sClusterTrainingRuntime %q is deprecated and will be removed in a future release of Kubeflow Trainer."+
		" See runtime deprecation policy: %s", prefix, runtime.Name, deprecationPolicy)}
}
