package mpi

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/translate/wellknown"
)

const atLeastOne = "must be greater than or equal to 1 for MPI TrainJob"

// Validate refuses TrainJobs that set the launcher's variables themselves or ask
// for what the runtime's jobs or mpirun cannot do.
func (*Plugin) Validate(_ context.Context, info *framework.Info, _, new *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	if !applies(info) {
		return idleImplementation(new), nil
	}
	errs := validateImplementation(new)
	trainer := new.Spec.Trainer
	if trainer != nil {
		path := field.NewPath("spec", "trainer")
		errs = append(errs, validateNodes(info, trainer, path.Child("numNodes"))...)
		if n := trainer.NumProcPerNode; n != nil && *n < 1 {
			errs = append(errs, field.Invalid(path.Child("numProcPerNode"), *n, atLeastOne))
		}
		errs = append(errs, validateEnv(info, new, path.Child("env"))...)
	}
	if n := info.MLPolicy.MPI.NumProcPerNode; n != nil && *n < 1 && (trainer == nil || trainer.NumProcPerNode == nil) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "runtimeRef"), new.Spec.RuntimeRef.Name,
			fmt.Sprintf("the runtime's mlPolicy.mpi.numProcPerNode is %d and %s; set spec.trainer.numProcPerNode", *n, atLeastOne)))
	}
	return nil, errs
}

func validateNodes(info *framework.Info, trainer *v1alpha1.Trainer, path *field.Path) field.ErrorList {
	n := ptr.Deref(trainer.NumNodes, 1)
	switch {
	case !info.LauncherIsNode():
		if n < 1 {
			return field.ErrorList{field.Invalid(path, n, atLeastOne)}
		}
	case n >= 2 && (info.PodSet(v1alpha1.JobLauncher) == nil || info.PodSet(v1alpha1.JobNode) == nil):
		return field.ErrorList{field.Invalid(path, n,
			"must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and node")}
	}
	return nil
}

// idleImplementation warns of a wish that the runtime has no use for.
func idleImplementation(trainJob *v1alpha1.TrainJob) admission.Warnings {
	if annotated(trainJob.Annotations) == "" {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("the annotation %s has no effect: the runtime %s has no mlPolicy.mpi",
		wellknown.AnnotationMPIImplementation, trainJob.Spec.RuntimeRef.Name)}
}

func validateImplementation(trainJob *v1alpha1.TrainJob) field.ErrorList {
	name := annotated(trainJob.Annotations)
	if _, known := implementations[name]; known || name == "" {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(wellknown.AnnotationMPIImplementation)
	return field.ErrorList{field.NotSupported(path, name, slices.Sorted(maps.Keys(implementations)))}
}

func validateEnv(info *framework.Info, trainJob *v1alpha1.TrainJob, path *field.Path) field.ErrorList {
	impl, err := implementationOf(info, trainJob)
	if err != nil {
		return nil // told elsewhere: the runtime's mistake by the Build phase
	}
	trainer := trainJob.Spec.Trainer
	var set []string
	for _, env := range trainer.Env {
		reserved := func(v corev1.EnvVar) bool { return v.Name == env.Name }
		if slices.ContainsFunc(impl.env(1), reserved) {
			set = append(set, env.Name)
		}
	}
	if set == nil {
		return nil
	}
	slices.Sort(set)
	return field.ErrorList{field.Invalid(path, trainer.Env,
		fmt.Sprintf("must not have reserved envs, invalid envs configured: %v", slices.Compact(set)))}
}
