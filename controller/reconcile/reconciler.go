package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/pipeline"
)

// Reconciler reconciles TrainJobs.
type Reconciler struct {
	client    client.Client
	pipeline  *pipeline.Pipeline
	pods      PodChecker
	snapshots *snapshots
	applier   *applier
	endings   endings
	events    events.EventRecorder
	clock     clock.PassiveClock
}

// state is one look at a TrainJob.
type state struct {
	trainJob *v1alpha1.TrainJob
	jobSet   *jobsetv1alpha2.JobSet // nil if there is none
	// gone is a JobSet that had ended when it was deleted; nil if there is none.
	gone *jobsetv1alpha2.JobSet
	// status is what the TrainJob's is to be.
	status v1alpha1.TrainJobStatus
	// again is when to look again although nothing has changed; 0 is never.
	again time.Duration
}

// Reconcile looks at one TrainJob.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	trainJob := &v1alpha1.TrainJob{}
	if err := r.client.Get(ctx, request.NamespacedName, trainJob); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request)
			r.endings.forget(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading the TrainJob: %w", err)
	}
	if ptr.Deref(trainJob.Spec.ManagedBy, v1alpha1.ManagedByController) != v1alpha1.ManagedByController {
		return ctrl.Result{}, nil // another controller's, status and all
	}
	s, err := r.gather(ctx, trainJob)
	if err != nil {
		return ctrl.Result{}, err
	}
	if s.finished() { // in the cache too
		r.endings.forget(request.NamespacedName)
	}
	r.decide(s)
	failure := r.carryOut(ctx, s)
	if failure != nil {
		r.report(trainJob, failure)
	}
	if s.finished() {
		r.forget(request)
	}
	return ctrl.Result{RequeueAfter: s.again}, errors.Join(failure, r.writeStatus(ctx, s))
}

// ownsJobSet tells whether there is a JobSet and it is this TrainJob's, and not
// only called like it.
func (s *state) ownsJobSet() bool {
	return s.jobSet != nil && metav1.IsControlledBy(s.jobSet, s.trainJob)
}

// gather reads what exists.
func (r *Reconciler) gather(ctx context.Context, trainJob *v1alpha1.TrainJob) (*state, error) {
	s := &state{trainJob: trainJob, jobSet: &jobsetv1alpha2.JobSet{}, status: *trainJob.Status.DeepCopy()}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(trainJob), s.jobSet); apierrors.IsNotFound(err) {
		s.jobSet, s.gone = nil, r.endings.of(client.ObjectKeyFromObject(trainJob))
	} else if err != nil {
		return nil, fmt.Errorf("reading the JobSet: %w", err)
	}
	return s, nil
}

// decide works out the status. Nothing here writes.
func (r *Reconciler) decide(s *state) {
	now := r.clock.Now()
	decideSupported(s, now)
	decideSuspended(s, now)
	decideFromJobSet(s, r.pipeline)
	decideDeadline(s, now)
}

// carryOut makes the components what they should be. The JobSet of an expired
// TrainJob is deleted at every look until it is gone; one that only has its name
// is left alone.
func (r *Reconciler) carryOut(ctx context.Context, s *state) error {
	switch {
	case s.expired():
		if !s.ownsJobSet() {
			return nil
		}
		return r.deleteJobSet(ctx, s.jobSet)
	case s.finished() || s.trainJob.DeletionTimestamp != nil:
		return nil
	}
	err := r.build(ctx, s)
	if err != nil && s.suspended() && s.ownsJobSet() && !ptr.Deref(s.jobSet.Spec.Suspend, false) {
		// Whatever else of the TrainJob cannot be built, or its JobSet does not take
		// because another version of this program has built it: it must not run on.
		err = errors.Join(err, r.suspendJobSet(ctx, s.jobSet))
	}
	return err
}

func (r *Reconciler) deleteJobSet(ctx context.Context, jobSet *jobsetv1alpha2.JobSet) error {
	if jobSet.DeletionTimestamp != nil {
		return nil
	}
	err := r.client.Delete(ctx, jobSet,
		client.PropagationPolicy("Background"), client.Preconditions{UID: &jobSet.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the JobSet: %w", err)
	}
	return nil
}

// suspendJobSet changes nothing else of the JobSet.
func (r *Reconciler) suspendJobSet(ctx context.Context, jobSet *jobsetv1alpha2.JobSet) error {
	changed := jobSet.DeepCopy()
	changed.Spec.Suspend = ptr.To(true)
	err := r.client.Patch(ctx, changed, client.MergeFrom(jobSet), client.FieldOwner(v1alpha1.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("suspending the JobSet: %w", err)
	}
	return nil
}

func (r *Reconciler) writeStatus(ctx context.Context, s *state) error {
	if equality.Semantic.DeepEqual(s.trainJob.Status, s.status) {
		return nil
	}
	changed := s.trainJob.DeepCopy()
	changed.Status = s.status
	err := r.client.Status().Patch(ctx, changed, client.MergeFrom(s.trainJob))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the TrainJob's status: %w", err)
	}
	return nil
}

func (r *Reconciler) forget(request ctrl.Request) {
	r.applier.forget(request.NamespacedName)
	r.snapshots.forget(request.NamespacedName)
}
