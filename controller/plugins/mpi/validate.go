package mpi

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

const atLeastOne = "must be greater than or equal to 1 for MPI TrainJob"

// Validate refuses TrainJobs that set the launcher's variables themselves or ask
// for what the runtime's jobs or mpirun cannot do.
func (*Plugin) Validate(_ context.Context, info *framework.Info, _, new *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	if !applies(info) {
		return nil, nil
	}
	var errs field.ErrorList
	trainer := new.Spec.Trainer
	if trainer != nil {
		path := field.NewPath("spec", "trainer")
		errs = append(errs, validateNodes(info, trainer, path.Child("numNodes"))...)
		if n := trainer.NumProcPerNode; n != nil && *n < 1 {
			errs = append(errs, field.Invalid(path.Child("numProcPerNode"), *n, atLeastOne))
		}
		errs = append(errs, validateEnv(info.MLPolicy.MPI, trainer, path.Child("env"))...)
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

func validateEnv(policy *v1alpha1.MPIMLPolicySource, trainer *v1alpha1.Trainer, path *field.Path) field.ErrorList {
	impl, err := implementationOf(policy)
	if err != nil {
		return nil // the runtime's mistake, which the Build phase reports
	}
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
