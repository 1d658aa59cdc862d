package jobset

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// jobSetWarnings are what the webhook of JobSet v0.12 will refuse the JobSet
// for. Kubeflow Trainer admits such TrainJobs, and a later JobSet may take them,
// so they are no errors.
func jobSetWarnings(info *framework.Info, trainJob *v1alpha1.TrainJob) admission.Warnings {
	warnings := longNames(info, trainJob)
	for _, problem := range danglingNames(info.Template) {
		warnings = append(warnings, fmt.Sprintf("JobSet will refuse this TrainJob's runtime %s: %s", trainJob.Spec.RuntimeRef.Name, problem))
	}
	return warnings
}

// nameSuffix stands for what a Job adds to the host name of a pod to name it.
const nameSuffix = "-abcde"

// longNames tells by how much the TrainJob's name is too long for the longest
// names that are made of it.
func longNames(info *framework.Info, trainJob *v1alpha1.TrainJob) admission.Warnings {
	longest := ""
	for i := range info.PodSets {
		p := &info.PodSets[i]
		name := fmt.Sprintf("%s-%s-%d", trainJob.Name, p.Name, p.Replicas-1)
		// Only pods with an index have a name that JobSet checks. Its default is
		// that they have one.
		if ptr.Deref(p.Job.Spec.CompletionMode, batchv1.IndexedCompletion) == batchv1.IndexedCompletion {
			name = fmt.Sprintf("%s-%d%s", name, podCount(info, p)-1, nameSuffix)
		}
		if len(name) > len(longest) {
			longest = name
		}
	}
	over := len(longest) - validation.DNS1035LabelMaxLength
	if over <= 0 {
		return nil
	}
	return admission.Warnings{fmt.Sprintf(
		"JobSet will refuse this TrainJob: names like %q have more than %d characters. Give it a name of at most %d.",
		longest, validation.DNS1035LabelMaxLength, len(trainJob.Name)-over)}
}

// podCount is the number of pods that a Job will have, before policies have been
// enforced: the TrainJob's numNodes counts the trainer's or, with MPI, the nodes'.
func podCount(info *framework.Info, p *framework.PodSet) int32 {
	if info.Trainer == nil || info.Trainer.NumNodes == nil {
		return p.Count
	}
	n := *info.Trainer.NumNodes
	mpi := info.MLPolicy != nil && info.MLPolicy.MPI != nil
	switch {
	case mpi && p.Name == v1alpha1.JobNode && info.LauncherIsNode():
		return max(n-1, 1)
	case mpi && p.Name == v1alpha1.JobNode, !mpi && p.Ancestor == v1alpha1.AncestorTrainer:
		return max(n, 1)
	}
	return p.Count
}

// danglingNames are the references to replicated jobs that JobSet will not take:
// a job may depend on one before it only, and policies aim at jobs that exist.
func danglingNames(spec *jobsetv1alpha2.JobSetSpec) []string {
	var problems []string
	var names []string
	for _, job := range spec.ReplicatedJobs {
		for _, d := range job.DependsOn {
			if !slices.Contains(names, d.Name) {
				problems = append(problems, fmt.Sprintf("the replicated job %s depends on %s, which does not come before it", job.Name, d.Name))
			}
		}
		names = append(names, job.Name)
	}
	aims := func(policy string, targets []string) {
		for _, name := range targets {
			if !slices.Contains(names, name) {
				problems = append(problems, fmt.Sprintf("its %s names the replicated job %s, which does not exist", policy, name))
			}
		}
	}
	if spec.SuccessPolicy != nil {
		aims("successPolicy", spec.SuccessPolicy.TargetReplicatedJobs)
	}
	if spec.FailurePolicy != nil {
		for _, rule := range spec.FailurePolicy.Rules {
			aims("failurePolicy", rule.TargetReplicatedJobs)
		}
	}
	return problems
}
