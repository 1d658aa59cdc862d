package reconcile

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// legacyFinalizer is what Kubeflow Trainer up to v2.2 put on runtimes in use.
// Nobody else takes it away, so such a runtime could never be deleted.
const legacyFinalizer = "trainer.kubeflow.org/resource-in-use"

// setupFinalizers registers the controllers that take the legacy finalizer off
// runtimes.
func setupFinalizers(mgr ctrl.Manager, o Options) error {
	for kind, object := range map[string]client.Object{
		v1alpha1.TrainingRuntimeKind:        &v1alpha1.TrainingRuntime{},
		v1alpha1.ClusterTrainingRuntimeKind: &v1alpha1.ClusterTrainingRuntime{},
	} {
		has := predicate.NewPredicateFuncs(func(o client.Object) bool {
			return controllerutil.ContainsFinalizer(o, legacyFinalizer)
		})
		err := ctrl.NewControllerManagedBy(mgr).
			For(object, builder.WithPredicates(has)).
			WithOptions(o.concurrency(kind)).
			Complete(&finalizers{client: mgr.GetClient(), object: object})
		if err != nil {
			return fmt.Errorf("setting up the %s controller: %w", kind, err)
		}
	}
	return nil
}

type finalizers struct {
	client client.Client
	object client.Object
}

// Reconcile takes the legacy finalizer off one runtime.
func (f *finalizers) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	runtime := f.object.DeepCopyObject().(client.Object)
	if err := f.client.Get(ctx, request.NamespacedName, runtime); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := runtime.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(runtime, legacyFinalizer) {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := f.client.Patch(ctx, runtime, patch); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("taking the legacy finalizer off the runtime: %w", err)
	}
	return ctrl.Result{}, nil
}
