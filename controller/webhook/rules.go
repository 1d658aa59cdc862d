package webhook

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
)

// requiredContainers are, for each step, the names of which one container must
// have one. Kubeflow Trainer knows the trainer's as "node" only; the KEP's
// examples say "trainer".
func requiredContainers() map[string][]string {
	return map[string][]string{
		v1alpha1.AncestorTrainer:    {v1alpha1.ContainerNode, v1alpha1.ContainerTrainer},
		v1alpha1.DatasetInitializer: {v1alpha1.DatasetInitializer},
		v1alpha1.ModelInitializer:   {v1alpha1.ModelInitializer},
	}
}

// faults are what Kubeflow Trainer refuses a runtime for, in its words. It looks
// at Job templates that are labelled as a step; other labels' values, and labels
// of pod templates, are admitted whatever stands there.
func faults(spec *v1alpha1.TrainingRuntimeSpec) field.ErrorList {
	var errs field.ErrorList
	for i, job := range spec.Template.Spec.ReplicatedJobs {
		step := job.Template.Labels[v1alpha1.LabelAncestor]
		required, known := requiredContainers()[step]
		if !known {
			continue
		}
		path := replicatedJobs().Index(i)
		if job.Replicas != 1 {
			errs = append(errs, field.Invalid(path.Child("replicas"), job.Replicas, "always must be 1"))
		}
		names := containerNames(job.Template.Spec.Template.Spec.Containers)
		if !slices.ContainsFunc(required, func(name string) bool { return slices.Contains(names, name) }) {
			errs = append(errs, field.Invalid(path.Child("template", "spec", "template", "spec", "containers"), names,
				"must contain the required container for the ancestor: "+step))
		}
	}
	return errs
}

// doubts are warnings of what Kubeflow Trainer admits although it will not work
// as its author may think.
func doubts(spec *v1alpha1.TrainingRuntimeSpec) admission.Warnings {
	info, err := pipeline.NewInfo(pipeline.Input{TrainJob: &v1alpha1.TrainJob{}, Runtime: *spec})
	if err != nil {
		return admission.Warnings{err.Error()}
	}
	return slices.Concat(doubtsOfTrainer(info), doubtsOfContainers(info), doubtsOfMPI(info))
}

func doubtsOfTrainer(info *framework.Info) admission.Warnings {
	var trainers []string
	for _, p := range info.PodSets {
		if p.Ancestor == v1alpha1.AncestorTrainer {
			trainers = append(trainers, p.Name)
		}
	}
	switch len(trainers) {
	case 0:
		return admission.Warnings{fmt.Sprintf("%s: none is labelled %s=%s, so what a TrainJob says in spec.trainer reaches none",
			replicatedJobs(), v1alpha1.LabelAncestor, v1alpha1.AncestorTrainer)}
	case 1:
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s: %s are all labelled as the trainer, but a TrainJob's numNodes reaches the first only",
		replicatedJobs(), strings.Join(trainers, ", "))}
}

// doubtsOfContainers are about steps that are labelled on the pod template, where
// faults does not look.
func doubtsOfContainers(info *framework.Info) admission.Warnings {
	var warnings admission.Warnings
	for i := range info.PodSets {
		p := &info.PodSets[i]
		required, known := requiredContainers()[p.Ancestor]
		if _, checked := p.Job.Labels[v1alpha1.LabelAncestor]; checked || !known {
			continue
		}
		trains := p.Ancestor == v1alpha1.AncestorTrainer && p.TrainingContainer() != nil
		if !trains && !slices.ContainsFunc(required, func(name string) bool { return p.Container(name) != nil }) {
			warnings = append(warnings, fmt.Sprintf("%s: no container is called %s, so what a TrainJob says of the %s reaches none",
				replicatedJobs().Key(p.Name), strings.Join(required, " or "), p.Ancestor))
		}
	}
	return warnings
}

func doubtsOfMPI(info *framework.Info) admission.Warnings {
	if info.MLPolicy == nil || info.MLPolicy.MPI == nil {
		return nil
	}
	var warnings admission.Warnings
	launcher := info.PodSet(v1alpha1.JobLauncher)
	switch {
	case launcher == nil:
		warnings = append(warnings, fmt.Sprintf("%s: none is called %s, so no pod gets the hostfile of spec.mlPolicy.mpi",
			replicatedJobs(), v1alpha1.JobLauncher))
	case launcher.Count > 1 && launcher.Ancestor == v1alpha1.AncestorTrainer && launcher.Container(v1alpha1.ContainerNode) != nil:
		warnings = append(warnings, fmt.Sprintf("spec.mlPolicy.numNodes: starts %d launchers, since %s is the trainer; say 1 here, and the number of nodes as the parallelism of %s or in TrainJobs",
			launcher.Count, v1alpha1.JobLauncher, v1alpha1.JobNode))
	}
	if info.PodSet(v1alpha1.JobNode) == nil && !info.LauncherIsNode() {
		warnings = append(warnings, fmt.Sprintf("%s: none is called %s, so the hostfile of spec.mlPolicy.mpi is empty",
			replicatedJobs(), v1alpha1.JobNode))
	}
	return warnings
}

func replicatedJobs() *field.Path {
	return field.NewPath("spec", "template", "spec", "replicatedJobs")
}

func containerNames(containers []corev1.Container) []string {
	names := make([]string, 0, len(containers))
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}
