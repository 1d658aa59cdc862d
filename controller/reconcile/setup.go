package reconcile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
)

// PodChecker tells what the API server will have against a JobSet's pods.
type PodChecker interface {
	Problems(ctx context.Context, namespace string, spec *jobsetv1alpha2.JobSetSpec) []string
}

// Options are what the controllers need besides a manager.
type Options struct {
	Pipeline *pipeline.Pipeline
	// Pods tells what the API server will have against a JobSet's pods.
	Pods PodChecker
	// Concurrency is how many objects of a kind are reconciled at once, by
	// "Kind.group"; 1 for a kind that is not named.
	Concurrency map[string]int
}

func (o Options) concurrency(kind string) controller.Options {
	return controller.Options{MaxConcurrentReconciles: o.Concurrency[kind+"."+v1alpha1.GroupVersion.Group]}
}

// SetupWithManager registers the controllers of TrainJobs and of runtimes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	r := &Reconciler{
		client:    mgr.GetClient(),
		pipeline:  o.Pipeline,
		pods:      o.Pods,
		snapshots: newSnapshots(mgr.GetClient(), mgr.GetAPIReader()),
		applier:   newApplier(mgr.GetClient()),
		events:    mgr.GetEventRecorder(reportingController),
		clock:     clock.RealClock{},
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("trainjob").
		For(&v1alpha1.TrainJob{}, builder.WithPredicates(asksForMore())).
		WithOptions(o.concurrency(v1alpha1.TrainJobKind))
	owned := map[schema.GroupVersionKind]bool{} // several plugins may own objects of a kind
	for _, w := range o.Pipeline.Watches() {
		kind, err := mgr.GetClient().GroupVersionKindFor(w.Object)
		if err != nil {
			return fmt.Errorf("finding the kind of %T: %w", w.Object, err)
		}
		if w.Map == nil {
			if owned[kind] {
				continue
			}
			owned[kind] = true
		}
		if err := watch(mgr, b, w, kind, components(&r.endings)); err != nil {
			return err
		}
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the TrainJob controller: %w", err)
	}
	return setupFinalizers(mgr, o)
}

func watch(mgr ctrl.Manager, b *builder.Builder, w framework.Watch, kind schema.GroupVersionKind, owned predicate.Predicate) error {
	if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		if w.Optional && meta.IsNoMatchError(err) {
			mgr.GetLogger().Info("not watching a kind that the API server does not know; restart after installing it", "kind", kind.String())
			return nil
		}
		return fmt.Errorf("watching %s: %w", kind.Kind, err)
	}
	if w.Map != nil {
		b.Watches(w.Object, handler.EnqueueRequestsFromMapFunc(w.Map))
		return nil
	}
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.TrainJob{}, handler.OnlyControllerOwner())
	b.Watches(w.Object, unhurried{owner}, builder.WithPredicates(owned))
	return nil
}

// asksForMore leaves out changes of a TrainJob's status, which are our own or
// the training's.
func asksForMore() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	)
}

// components leaves out that a component has appeared: whoever made it knows. A
// JobSet that appears with a status is another matter: a watch that was
// interrupted shows it for the first time, and what has become of it meanwhile.
func components(e *endings) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event event.CreateEvent) bool {
			jobSet, ok := event.Object.(*jobsetv1alpha2.JobSet)
			return ok && (len(jobSet.Status.Conditions) > 0 || len(jobSet.Status.ReplicatedJobsStatus) > 0)
		},
		DeleteFunc: func(event event.DeleteEvent) bool {
			e.note(event.Object)
			return true
		},
	}
}
