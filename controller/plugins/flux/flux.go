package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Plugin prepares the training pods of a Flux runtime.
type Plugin struct{}

var (
	_ framework.Watcher          = (*Plugin)(nil)
	_ framework.Validator        = (*Plugin)(nil)
	_ framework.MLPolicyEnforcer = (*Plugin)(nil)
	_ framework.ComponentBuilder = (*Plugin)(nil)
)

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "Flux" }

// Watches are the kinds of what Build makes.
func (*Plugin) Watches() []framework.Watch { return framework.Owned("ConfigMap", "Secret") }

const atLeastOne = "must be greater than or equal to 1 for Flux TrainJob"

// Validate refuses numbers that make no instance, and runtimes that have an init
// container of our name.
func (*Plugin) Validate(_ context.Context, info *framework.Info, _, new *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	if !applies(info) {
		return nil, nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "trainer")
	procs := ptr.Deref(info.MLPolicy.Flux.NumProcPerNode, 1)
	if trainer := new.Spec.Trainer; trainer != nil {
		procs = ptr.Deref(trainer.NumProcPerNode, procs)
		if n := trainer.NumNodes; n != nil && *n < 1 {
			errs = append(errs, field.Invalid(path.Child("numNodes"), *n, atLeastOne))
		}
	}
	if procs < 1 {
		errs = append(errs, field.Invalid(path.Child("numProcPerNode"), procs, atLeastOne))
	}
	if step := trainingStep(info); step != nil {
		for _, c := range step.Pod().InitContainers {
			if c.Name == installerName {
				errs = append(errs, field.Invalid(path.Child("initContainers"), c.Name, "InitContainer 'flux-installer' is reserved"))
			}
		}
	}
	return nil, errs
}

// EnforceMLPolicy gives the training pods their volumes and mounts, the wrapped
// command and, off the HPC side, the init container. Their number is plainml's
// affair.
func (*Plugin) EnforceMLPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if !applies(info) {
		return nil
	}
	step, c, err := training(info)
	if err != nil {
		return err
	}
	native := isNative(info)
	settings, err := settingsOf(c, trainJob.Spec.Trainer, native)
	if err != nil {
		return err
	}
	pod := step.Pod()
	framework.UpsertVolumes(&pod.Volumes, volumes(trainJob.Name, native)...)
	framework.UpsertVolumeMounts(&c.VolumeMounts, mounts(trainJob.Name, native)...)
	if native {
		lead := fmt.Sprintf("%s-%s-0-0.%s", trainJob.Name, step.Name, info.Subdomain(trainJob))
		framework.UpsertEnv(&c.Env, nativeEnv(lead)...)
		// What Flux says last is why the pod has failed.
		c.TerminationMessagePolicy = cmp.Or(c.TerminationMessagePolicy, corev1.TerminationMessageFallbackToLogsOnError)
	} else {
		pod.InitContainers = append(pod.InitContainers, installer(trainJob.Name, settings.viewImage))
	}

	if info.Trainer == nil {
		info.Trainer = &v1alpha1.Trainer{}
	}
	info.Trainer.Command = wrap(c, trainJob.Spec.Trainer).command
	info.Trainer.Args = nil
	return nil
}

// Build makes the scripts' ConfigMap and the brokers' Secret.
func (*Plugin) Build(_ context.Context, info *framework.Info, trainJob *v1alpha1.TrainJob) ([]framework.Component, error) {
	if !applies(info) {
		return nil, nil
	}
	i, err := newInstance(info, trainJob)
	if err != nil {
		return nil, err
	}
	return []framework.Component{scriptsConfigMap(trainJob, i), curveSecret(trainJob)}, nil
}

func newInstance(info *framework.Info, trainJob *v1alpha1.TrainJob) (instance, error) {
	step, c, err := training(info)
	if err != nil {
		return instance{}, err
	}
	settings, err := settingsOf(c, trainJob.Spec.Trainer, isNative(info))
	if err != nil {
		return instance{}, err
	}
	tasks := ptr.Deref(info.MLPolicy.Flux.NumProcPerNode, 1)
	if trainer := trainJob.Spec.Trainer; trainer != nil {
		tasks = ptr.Deref(trainer.NumProcPerNode, tasks)
	}
	if step.Count < 1 || tasks < 1 {
		return instance{}, fmt.Errorf("%d nodes of %d processes make no Flux instance: numNodes and numProcPerNode must be at least 1",
			step.Count, tasks)
	}
	return instance{
		job:       fmt.Sprintf("%s-%s-0", trainJob.Name, step.Name),
		domain:    fmt.Sprintf("%s.%s.svc.cluster.local", info.Subdomain(trainJob), trainJob.Namespace),
		nodes:     int(step.Count),
		tasks:     int(tasks),
		gpus:      framework.GPUs(info.ResourcesPerNode()),
		arguments: wrap(c, trainJob.Spec.Trainer).arguments,
		native:    isNative(info),
		settings:  settings,
	}, nil
}

func applies(info *framework.Info) bool {
	return info.MLPolicy != nil && info.MLPolicy.Flux != nil
}

// isNative tells whether the job is the HPC side's: no image is pulled there.
func isNative(info *framework.Info) bool { return info.Cluster != "" }

// trainingStep is the trainer step or, without one, job "node".
func trainingStep(info *framework.Info) *framework.PodSet {
	if step := info.Step(v1alpha1.AncestorTrainer); step != nil {
		return step
	}
	return info.PodSet(v1alpha1.JobNode)
}

func training(info *framework.Info) (*framework.PodSet, *corev1.Container, error) {
	if step := trainingStep(info); step != nil {
		if c := step.TrainingContainer(); c != nil {
			return step, c, nil
		}
	}
	return nil, nil, errors.New("the runtime's policy is flux, but no job of its trainer step has a container " +
		"called node: label one with trainer.kubeflow.org/trainjob-ancestor-step: trainer")
}
