package torch

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Validate refuses TrainJobs that set torchrun's variables themselves, that ask
// torchtune for what it has no recipe for, or whose runtime injects variables
// into containers that do not exist.
func (*Plugin) Validate(_ context.Context, info *framework.Info, _, new *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	if !applies(info) {
		return nil, nil
	}
	errs := validateTargets(info)
	if trainer := new.Spec.Trainer; trainer != nil {
		errs = append(errs, validateEnv(trainer)...)
		if isTorchtune(trainer.Command) {
			errs = append(errs, validateTorchtune(info, new)...)
		}
	}
	return nil, errs
}

func validateTargets(info *framework.Info) field.ErrorList {
	var errs field.ErrorList
	_ = eachTarget(info, func(target v1alpha1.EnvInjectionTarget, name string, c *corev1.Container) error {
		if c == nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "runtimeRef"), target, notFound(target, name)))
		}
		return nil
	})
	return errs
}

func validateEnv(trainer *v1alpha1.Trainer) field.ErrorList {
	reserved := []string{envNodes, envProcsPerNode, envNodeRank, envMasterAddr, envMasterPort}
	var set []string
	for _, env := range trainer.Env {
		if slices.Contains(reserved, env.Name) {
			set = append(set, env.Name)
		}
	}
	if set == nil {
		return nil
	}
	slices.Sort(set)
	return field.ErrorList{field.Invalid(field.NewPath("spec", "trainer", "env"), trainer.Env,
		fmt.Sprintf("must not have reserved envs, invalid envs configured: %v", slices.Compact(set)))}
}

// validateTorchtune holds what the TrainJob states against torchtune's recipes
// for the runtime's model.
func validateTorchtune(info *framework.Info, trainJob *v1alpha1.TrainJob) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	invalid := func(path *field.Path, value any, format string, args ...any) {
		errs = append(errs, field.Invalid(path, value, fmt.Sprintf(format, args...)))
	}
	runtimeName, runtimePath := trainJob.Spec.RuntimeRef.Name, spec.Child("runtimeRef", "name")
	nodesPath := spec.Child("trainer", "numNodes")

	trainer := trainJob.Spec.Trainer
	s, m := statedScale(info, trainer), methodOf(trainer.Args)
	model := modelOf(trainJob.Spec.RuntimeRef)
	has, supported := models[model]

	if !supported {
		invalid(runtimePath, runtimeName, "must have a supported pretrained model, invalid model configured: %s", model)
	}
	if s.nodes > 1 && !has.multiNode {
		invalid(nodesPath, s.nodes, "must be 1 for %s model", model)
	}
	if s.nodes == 1 && m == qlora && has.noQLoRA {
		invalid(runtimePath, runtimeName, "QLoRA is not supported for %s model", model)
	}
	if s.nodes == 1 && m == qlora && has.qloraOneDevice && !s.oneDevice() {
		invalid(spec.Child("trainer", "numProcPerNode"), s.procs,
			"must be auto or 1 for %s model when using QLoRA", model)
		invalid(spec.Child("trainer", "resourcesPerNode"), trainer.ResourcesPerNode,
			"must have gpu resource with value 1 for %s model when using QLoRA", model)
	}
	if s.nodes > 1 && m != full {
		invalid(nodesPath, s.nodes, "LoRA fine-tuning is not supported for multi-node training in TorchTune")
	}
	for i, arg := range trainer.Args {
		if key := configKey(arg); isManaged(key) {
			invalid(spec.Child("trainer", "args").Index(i), arg,
				"must not set immutable config %q in trainer args; it is managed by the runtime", key)
		}
	}
	return errs
}
