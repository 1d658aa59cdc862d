package volcano

import (
	"context"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Validate refuses an empty queue, and priority classes that do not exist. Paths
// and texts are Kubeflow Trainer's. Unlike there, one template with a priority of
// the system's does not end the check of the others.
func (p *Plugin) Validate(ctx context.Context, info *framework.Info, _, _ *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	if policy(info) == nil {
		return nil, nil
	}
	var errs field.ErrorList
	if queue, ok := info.Annotations[annotationQueue]; ok && queue == "" {
		errs = append(errs, field.Invalid(field.NewPath("spec", "annotations").Key(annotationQueue),
			queue, "Volcano queue name must not be empty"))
	}
	for i := range info.PodSets {
		if err := p.checkPriority(ctx, info.PodSets[i].Pod().PriorityClassName); err != nil {
			errs = append(errs, err)
		}
	}
	return nil, errs
}

func (p *Plugin) checkPriority(ctx context.Context, class string) *field.Error {
	switch class {
	case "", "system-cluster-critical", "system-node-critical": // the latter exist always
		return nil
	}
	path := field.NewPath("spec", "templateSpec", "priorityClassName")
	err := p.reader.Get(ctx, client.ObjectKey{Name: class}, &schedulingv1.PriorityClass{})
	switch {
	case apierrors.IsNotFound(err):
		return field.Invalid(path, class, fmt.Sprintf("PriorityClass %q doesn't exist: %v", class, err))
	case err != nil:
		return field.InternalError(path, fmt.Errorf("reading PriorityClass %s: %w", class, err))
	}
	return nil
}
