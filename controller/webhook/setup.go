package webhook

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/runtimes"
)

// PathMutateTrainJob is where TrainJobs are mutated.
const PathMutateTrainJob = "/mutate-trainer-kubeflow-org-v1alpha1-trainjob"

// Setup registers the four webhooks with the manager's webhook server: the one
// of PathMutateTrainJob, and
// /validate-trainer-kubeflow-org-v1alpha1-{trainjob,trainingruntime,clustertrainingruntime}.
//
// They read runtimes and the metadata of namespaces through the manager's cache,
// and ConfigMaps, one by name, from the API server.
func Setup(mgr ctrl.Manager, p *pipeline.Pipeline, pods PodChecker) error {
	mgr.GetWebhookServer().Register(PathMutateTrainJob, &admission.Webhook{
		Handler: &patchTimer{decoder: admission.NewDecoder(mgr.GetScheme()), clock: clock.RealClock{}},
	})
	trainJobs := &trainJobValidator{
		loader:   runtimes.Loader{Reader: &freshReader{cache: mgr.GetClient(), live: mgr.GetAPIReader()}},
		live:     mgr.GetAPIReader(),
		pipeline: p,
		pods:     pods,
	}
	if err := validate(mgr, &v1alpha1.TrainJob{}, trainJobs); err != nil {
		return err
	}
	if err := validate(mgr, &v1alpha1.TrainingRuntime{}, trainingRuntimeValidator{}); err != nil {
		return err
	}
	return validate(mgr, &v1alpha1.ClusterTrainingRuntime{}, clusterTrainingRuntimeValidator{})
}

func validate[T runtime.Object](mgr ctrl.Manager, object T, v admission.Validator[T]) error {
	if err := ctrl.NewWebhookManagedBy(mgr, object).WithValidator(v).Complete(); err != nil {
		return fmt.Errorf("registering the webhook that validates %T: %w", object, err)
	}
	return nil
}
