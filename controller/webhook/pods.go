package webhook

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/pipeline"
)

// PodChecker tells what the API server will have against a JobSet's pods.
type PodChecker interface {
	Problems(ctx context.Context, namespace string, spec *jobsetv1alpha2.JobSetSpec) []string
}

// podWarnings say why no pod could be made of a TrainJob. It is admitted all the
// same: Kubeflow Trainer admits it, and KEP-2170's own first example is one.
func (v *trainJobValidator) podWarnings(ctx context.Context, in pipeline.Input) admission.Warnings {
	objects, err := v.pipeline.Objects(ctx, in)
	if err != nil {
		return nil // the pipeline has reported it
	}
	var warnings admission.Warnings
	for _, object := range objects {
		if jobSet, ok := object.(*jobsetv1alpha2.JobSet); ok {
			for _, problem := range v.pods.Problems(ctx, in.TrainJob.Namespace, &jobSet.Spec) {
				warnings = append(warnings, "it will not start: "+problem)
			}
		}
	}
	return warnings
}
