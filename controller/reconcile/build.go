package reconcile

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// collectionWait is how soon to look again while the garbage collector still
// has the objects of an earlier TrainJob of the same name.
const collectionWait = time.Second

// build makes the components and writes those that need it, in their order.
func (r *Reconciler) build(ctx context.Context, s *state) error {
	if s.jobSet != nil && !s.ownsJobSet() {
		return r.unlessLeftover(s, notOurs(s.jobSet, r.describe(s.jobSet), s.trainJob))
	}
	in, err := r.snapshots.input(ctx, s.trainJob)
	if err != nil {
		return r.unlessLeftover(s, err)
	}
	components, err := r.pipeline.Build(ctx, in)
	if err != nil {
		return err
	}
	for _, c := range components {
		if err := r.write(ctx, s, c); err != nil {
			return r.unlessLeftover(s, err)
		}
	}
	return nil
}

// write writes one component if its policy says so.
func (r *Reconciler) write(ctx context.Context, s *state, c framework.Component) error {
	existing, err := r.existing(ctx, s, c)
	if err != nil {
		return err
	}
	switch {
	case existing != nil && !metav1.IsControlledBy(existing, s.trainJob):
		return notOurs(existing, r.describe(c.Kind), s.trainJob)
	case c.Policy == framework.Once && existing != nil:
		return nil
	case c.Policy == framework.UntilStarted && existing != nil && s.started():
		return nil
	}
	object, err := c.Object()
	if err != nil {
		return fmt.Errorf("building %s: %w", r.describe(c.Kind), err)
	}
	if c.Policy == framework.Once {
		err = r.applier.create(ctx, object)
	} else {
		err = r.applier.apply(ctx, client.ObjectKeyFromObject(s.trainJob), object, existing)
	}
	if err == nil {
		r.warnOfPods(ctx, s, object, existing)
		return nil
	}
	if _, isJobSet := c.Kind.(*jobsetv1alpha2.JobSet); isJobSet && s.stuck(err) {
		// What JobSet does not let be changed can be made anew: nothing of it runs.
		log.FromContext(ctx).Info("making the suspended JobSet anew, since it does not take the change", "error", short(err))
		return r.deleteJobSet(ctx, s.jobSet)
	}
	return fmt.Errorf("writing %s: %w", r.describe(c.Kind), err)
}

// warnOfPods tells of a new JobSet that no pod can be made of, which otherwise
// only the Events of its Jobs would say.
func (r *Reconciler) warnOfPods(ctx context.Context, s *state, object client.Object, existing metav1.Object) {
	jobSet, ok := object.(*jobsetv1alpha2.JobSet)
	if !ok || existing != nil {
		return
	}
	if problems := r.pods.Problems(ctx, jobSet.Namespace, &jobSet.Spec); len(problems) > 0 {
		r.reportPods(s.trainJob, problems)
	}
}

// started tells whether the JobSet may run, or has.
func (s *state) started() bool {
	return !s.suspended() && s.jobSet != nil && !ptr.Deref(s.jobSet.Spec.Suspend, false)
}

// stuck tells whether a change was refused by a JobSet that is suspended and of
// which nothing is active.
func (s *state) stuck(err error) bool {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return false
	}
	if s.jobSet == nil || !ptr.Deref(s.jobSet.Spec.Suspend, false) {
		return false
	}
	for _, job := range s.jobSet.Status.ReplicatedJobsStatus {
		if job.Active > 0 {
			return false
		}
	}
	return true
}

// existing is the metadata of a component that is there, nil if it is not.
func (r *Reconciler) existing(ctx context.Context, s *state, c framework.Component) (metav1.Object, error) {
	if _, isJobSet := c.Kind.(*jobsetv1alpha2.JobSet); isJobSet {
		if s.jobSet == nil {
			return nil, nil
		}
		return s.jobSet, nil
	}
	kind, err := r.client.GroupVersionKindFor(c.Kind)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", r.describe(c.Kind), err)
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err = r.client.Get(ctx, client.ObjectKeyFromObject(c.Kind), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", r.describe(c.Kind), err)
	}
	return found, nil
}

func (r *Reconciler) describe(object client.Object) string {
	kind, err := r.client.GroupVersionKindFor(object)
	if err != nil {
		return object.GetName()
	}
	return kind.Kind + " " + object.GetName()
}

// unlessLeftover turns the error of an object that the garbage collector is
// about to remove into another look.
func (r *Reconciler) unlessLeftover(s *state, err error) error {
	if isLeftover(err) {
		s.again = collectionWait
		return nil
	}
	return err
}

// notOursError is an object that has the name of a component but another owner.
type notOursError struct {
	object   string
	leftover bool
}

func (e *notOursError) Error() string {
	return e.object + " exists and is not this TrainJob's: delete it, or give the TrainJob another name"
}

// notOurs is the error of an object, described by its kind and name, that stands
// where a component should.
func notOurs(object metav1.Object, described string, trainJob *v1alpha1.TrainJob) error {
	owner := metav1.GetControllerOf(object)
	return &notOursError{
		object: described,
		leftover: owner != nil && owner.Kind == v1alpha1.TrainJobKind &&
			owner.Name == trainJob.Name && owner.UID != trainJob.UID,
	}
}
