package reconcile

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/runtimes"
)

// The messages are Kubeflow Trainer's.
const (
	messageSuspended = "TrainJob is suspended"
	messageResumed   = "TrainJob is resumed"
	messageExpired   = "TrainJob exceeded its active deadline"
)

// finished tells whether the TrainJob has come to its end, of whatever kind.
// Both are final.
func (s *state) finished() bool {
	return meta.IsStatusConditionTrue(s.status.Conditions, v1alpha1.TrainJobComplete) ||
		meta.IsStatusConditionTrue(s.status.Conditions, v1alpha1.TrainJobFailed)
}

// expired tells whether this look has found the deadline passed, or an earlier
// one has.
func (s *state) expired() bool {
	failed := meta.FindStatusCondition(s.status.Conditions, v1alpha1.TrainJobFailed)
	return failed != nil && failed.Status == metav1.ConditionTrue && failed.Reason == v1alpha1.ReasonDeadlineExceeded
}

func (s *state) suspended() bool { return ptr.Deref(s.trainJob.Spec.Suspend, false) }

func (s *state) set(conditionType string, status metav1.ConditionStatus, reason, message string, now time.Time) {
	meta.SetStatusCondition(&s.status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now),
	})
}

// decideSupported fails a TrainJob whose runtime is of a kind that is not known.
// Admission refuses it; this one came past it.
func decideSupported(s *state, now time.Time) {
	if s.finished() {
		return
	}
	if err := runtimes.Supported(s.trainJob.Spec.RuntimeRef); err != nil {
		s.set(v1alpha1.TrainJobFailed, metav1.ConditionTrue, v1alpha1.ReasonRuntimeNotSupported, err.Error(), now)
	}
}

// decideSuspended says Suspended=False only after Suspended=True: a TrainJob that
// never was suspended has no condition.
func decideSuspended(s *state, now time.Time) {
	switch {
	case s.suspended():
		s.set(v1alpha1.TrainJobSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, messageSuspended, now)
	case meta.IsStatusConditionTrue(s.status.Conditions, v1alpha1.TrainJobSuspended):
		s.set(v1alpha1.TrainJobSuspended, metav1.ConditionFalse, v1alpha1.ReasonResumed, messageResumed, now)
	}
}

// decideFromJobSet takes over what the JobSet says, times too, or has said last of
// all. A JobSet that is not this TrainJob's says nothing.
func decideFromJobSet(s *state, p *pipeline.Pipeline) {
	jobSet := s.jobSet
	if jobSet == nil {
		jobSet = s.gone
	}
	if jobSet == nil || !metav1.IsControlledBy(jobSet, s.trainJob) {
		return
	}
	observed := p.Status(s.trainJob, jobSet)
	if !s.finished() {
		for _, c := range observed.Conditions {
			meta.SetStatusCondition(&s.status.Conditions, c)
		}
	}
	s.status.JobsStatus = observed.JobsStatus
}

// decideDeadline fails a TrainJob that has been active for too long: since its
// creation, or since it was resumed.
func decideDeadline(s *state, now time.Time) {
	// As many seconds as a Duration holds are some 292 years; more would overflow
	// into the past.
	const most = int64(math.MaxInt64 / time.Second)
	limit := time.Duration(min(s.trainJob.Spec.ActiveDeadlineSeconds, most)) * time.Second
	if limit == 0 || s.finished() || s.suspended() {
		return
	}
	since := s.trainJob.CreationTimestamp.Time
	resumed := meta.FindStatusCondition(s.status.Conditions, v1alpha1.TrainJobSuspended)
	if resumed != nil && resumed.Status == metav1.ConditionFalse {
		since = resumed.LastTransitionTime.Time
	}
	if left := since.Add(limit).Sub(now); left > 0 {
		s.again = left
		return
	}
	s.set(v1alpha1.TrainJobFailed, metav1.ConditionTrue, v1alpha1.ReasonDeadlineExceeded, messageExpired, now)
}
