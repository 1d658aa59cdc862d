package reconcile

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/plugins/jobset"
)

var (
	created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now     = created.Add(time.Hour)
)

// scene is a TrainJob as a test changes it, and its JobSet if it has one.
type scene struct {
	trainJob *v1alpha1.TrainJob
	jobSet   *jobsetv1alpha2.JobSet
}

func newScene() *scene {
	return &scene{trainJob: &v1alpha1.TrainJob{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "team", UID: "1", CreationTimestamp: metav1.NewTime(created),
		},
		Spec: v1alpha1.TrainJobSpec{RuntimeRef: v1alpha1.RuntimeRef{Name: "torch"}},
	}}
}

func (s *scene) withJobSet(conditions ...metav1.Condition) *jobsetv1alpha2.JobSet {
	s.jobSet = &jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{
		Name: "train", Namespace: "team", UID: "js",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.trainJob, v1alpha1.GroupVersion.WithKind(v1alpha1.TrainJobKind))},
	}}
	s.jobSet.Status.Conditions = conditions
	return s.jobSet
}

func (s *scene) had(conditionType string, status metav1.ConditionStatus, reason string, at time.Time) {
	s.trainJob.Status.Conditions = append(s.trainJob.Status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: "as it was", LastTransitionTime: metav1.NewTime(at),
	})
}

func (s *scene) decide() *state {
	r := &Reconciler{clock: clocktesting.NewFakePassiveClock(now), pipeline: pipeline.New(jobset.New(nil))}
	st := &state{trainJob: s.trainJob, jobSet: s.jobSet, status: *s.trainJob.Status.DeepCopy()}
	r.decide(st)
	return st
}

// said is a condition in one line.
func said(conditions []metav1.Condition) []string {
	lines := []string{}
	for _, c := range conditions {
		lines = append(lines, c.Type+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return lines
}

func TestConditions(t *testing.T) {
	completed := metav1.Condition{
		Type: string(jobsetv1alpha2.JobSetCompleted), Status: metav1.ConditionTrue,
		Reason: "AllJobsCompleted", Message: "jobset completed successfully", LastTransitionTime: metav1.NewTime(created.Add(time.Minute)),
	}
	failed := metav1.Condition{
		Type: string(jobsetv1alpha2.JobSetFailed), Status: metav1.ConditionTrue,
		Reason: "FailedJobs", Message: "jobset failed due to one or more job failures", LastTransitionTime: metav1.NewTime(created.Add(time.Minute)),
	}
	cases := map[string]struct {
		given func(*scene)
		want  []string
		again time.Duration
	}{
		"a new TrainJob has no condition": {given: func(*scene) {}, want: []string{}},
		"a running TrainJob has no condition": {
			given: func(s *scene) { s.withJobSet() }, want: []string{},
		},
		"a suspended TrainJob says so": {
			given: func(s *scene) { s.trainJob.Spec.Suspend = ptr.To(true) },
			want:  []string{"Suspended=True Suspended: TrainJob is suspended"},
		},
		"a TrainJob that was never suspended is not resumed": {
			given: func(s *scene) { s.trainJob.Spec.Suspend = ptr.To(false) }, want: []string{},
		},
		"a resumed TrainJob says so": {
			given: func(s *scene) { s.had("Suspended", metav1.ConditionTrue, "Suspended", created) },
			want:  []string{"Suspended=False Resumed: TrainJob is resumed"},
		},
		"a completed JobSet completes it, in the JobSet's words": {
			given: func(s *scene) { s.withJobSet(completed) },
			want:  []string{"Complete=True AllJobsCompleted: jobset completed successfully"},
		},
		"a failed JobSet fails it, in the JobSet's words": {
			given: func(s *scene) { s.withJobSet(failed) },
			want:  []string{"Failed=True FailedJobs: jobset failed due to one or more job failures"},
		},
		"a JobSet of somebody else's says nothing": {
			given: func(s *scene) { s.withJobSet(failed).OwnerReferences[0].UID = "2" }, want: []string{},
		},
		"failed is final, although a new JobSet completes": {
			given: func(s *scene) {
				s.had("Failed", metav1.ConditionTrue, "FailedJobs", created)
				s.withJobSet(completed)
			},
			want: []string{"Failed=True FailedJobs: as it was"},
		},
		"complete is final when the JobSet is gone": {
			given: func(s *scene) { s.had("Complete", metav1.ConditionTrue, "AllJobsCompleted", created) },
			want:  []string{"Complete=True AllJobsCompleted: as it was"},
		},
		"an unknown kind of runtime fails it": {
			given: func(s *scene) { s.trainJob.Spec.RuntimeRef.Kind = ptr.To("Sled") },
			want:  []string{"Failed=True TrainingRuntimeNotSupported: unsupported runtime: Sled.trainer.kubeflow.org"},
		},
		"a deadline to come is waited for": {
			given: func(s *scene) { s.trainJob.Spec.ActiveDeadlineSeconds = 3610 },
			want:  []string{}, again: 10 * time.Second,
		},
		"a deadline of more seconds than a duration holds is not in the past": {
			given: func(s *scene) { s.trainJob.Spec.ActiveDeadlineSeconds = math.MaxInt64 },
			want:  []string{}, again: math.MaxInt64/time.Second*time.Second - time.Hour,
		},
		"a deadline that has passed fails it": {
			given: func(s *scene) { s.trainJob.Spec.ActiveDeadlineSeconds = 3600 },
			want:  []string{"Failed=True DeadlineExceeded: TrainJob exceeded its active deadline"},
		},
		"a deadline counts from the resumption": {
			given: func(s *scene) {
				s.trainJob.Spec.ActiveDeadlineSeconds = 60
				s.had("Suspended", metav1.ConditionFalse, "Resumed", now.Add(-20*time.Second))
			},
			want: []string{"Suspended=False Resumed: as it was"}, again: 40 * time.Second,
		},
		"a deadline does not run while suspended": {
			given: func(s *scene) {
				s.trainJob.Spec.ActiveDeadlineSeconds = 60
				s.trainJob.Spec.Suspend = ptr.To(true)
			},
			want: []string{"Suspended=True Suspended: TrainJob is suspended"},
		},
		"a resumption starts the deadline anew": {
			given: func(s *scene) {
				s.trainJob.Spec.ActiveDeadlineSeconds = 60
				s.had("Suspended", metav1.ConditionTrue, "Suspended", created)
			},
			want: []string{"Suspended=False Resumed: TrainJob is resumed"}, again: time.Minute,
		},
		"who completed in time has not missed the deadline": {
			given: func(s *scene) {
				s.trainJob.Spec.ActiveDeadlineSeconds = 60
				s.withJobSet(completed)
			},
			want: []string{"Complete=True AllJobsCompleted: jobset completed successfully"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			c.given(s)
			got := s.decide()
			assert.Equal(t, c.want, said(got.status.Conditions))
			assert.Equal(t, c.again, got.again)
		})
	}
}

func TestTimesOfTheJobSetsConditionsAreKept(t *testing.T) {
	s := newScene()
	at := metav1.NewTime(created.Add(time.Minute))
	s.withJobSet(metav1.Condition{Type: string(jobsetv1alpha2.JobSetFailed), Status: metav1.ConditionTrue, Reason: "FailedJobs", LastTransitionTime: at})
	got := s.decide()
	require.Len(t, got.status.Conditions, 1)
	assert.Equal(t, at, got.status.Conditions[0].LastTransitionTime)
}

func TestJobsStatus(t *testing.T) {
	s := newScene()
	s.withJobSet().Status.ReplicatedJobsStatus = []jobsetv1alpha2.ReplicatedJobStatus{
		{Name: "launcher", Active: 1}, {Name: "node", Ready: 2, Succeeded: 3, Failed: 4, Suspended: 5},
	}
	want := []v1alpha1.JobStatus{
		{Name: "launcher", Ready: ptr.To[int32](0), Succeeded: ptr.To[int32](0), Failed: ptr.To[int32](0), Active: ptr.To[int32](1), Suspended: ptr.To[int32](0)},
		{Name: "node", Ready: ptr.To[int32](2), Succeeded: ptr.To[int32](3), Failed: ptr.To[int32](4), Active: ptr.To[int32](0), Suspended: ptr.To[int32](5)},
	}
	assert.Equal(t, want, s.decide().status.JobsStatus, "in the JobSet's order")

	s.trainJob.Status.JobsStatus, s.jobSet = want, nil
	assert.Equal(t, want, s.decide().status.JobsStatus, "what was known stays when the JobSet is gone")
}
