package plugin

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/plugin/gangs"
)

// selectorOf selects the pods of gangs, as far as their owners have given them a label; ""
// for all pods.
func selectorOf(found []gangs.Gang) string {
	if len(found) == 0 || found[0].Kind != "JobSet" && found[0].Kind != "TrainJob" {
		return ""
	}
	for _, g := range found {
		for _, p := range g.Pods {
			if p.Object.Labels[jobset.JobSetNameKey] != found[0].Name {
				return ""
			}
		}
	}
	return jobset.JobSetNameKey + "=" + found[0].Name
}

// over tells whether the gang's owner brings no more pods: it has ended, or does not exist,
// or is of a kind that brings none. What may not be read counts as such.
func (l *logs) over(ctx context.Context) (bool, error) {
	if l.ref.Kind != "" && l.ref.Kind != "Gang" && l.ref.Kind != "JobSet" && l.ref.Kind != "TrainJob" {
		return true, nil
	}
	tj := &v1alpha1.TrainJob{}
	switch err := l.get(ctx, trainJobs, l.namespace, l.ref.Name, tj); {
	case err == nil:
		return meta.IsStatusConditionTrue(tj.Status.Conditions, v1alpha1.TrainJobComplete) ||
			meta.IsStatusConditionTrue(tj.Status.Conditions, v1alpha1.TrainJobFailed), nil
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return false, err
	}
	js := &jobset.JobSet{}
	switch err := l.get(ctx, jobSets, l.namespace, l.ref.Name, js); {
	case err == nil:
		return js.Status.TerminalState != "", nil
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return true, err
	default:
		return false, err
	}
}
