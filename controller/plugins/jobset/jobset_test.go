package jobset

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/trainertest"
)

func TestPodNetwork(t *testing.T) {
	tests := map[string]struct {
		network string
		want    [][]string
	}{
		"the subdomain is the TrainJob's name": {
			network: `{}`,
			want: [][]string{
				{"llm-launcher-0-0.llm"},
				{"llm-node-0-0.llm", "llm-node-0-1.llm", "llm-node-1-0.llm", "llm-node-1-1.llm"},
			},
		},
		"unless the runtime gives one": {
			network: `{subdomain: ring}`,
			want: [][]string{
				{"llm-launcher-0-0.ring"},
				{"llm-node-0-0.ring", "llm-node-0-1.ring", "llm-node-1-0.ring", "llm-node-1-1.ring"},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, `{metadata: {name: llm}}`, `
spec:
  template:
    spec:
      network: `+tt.network+`
      replicatedJobs:
      - name: launcher
      - {name: node, replicas: 2, template: {spec: {parallelism: 2}}}
`)
			require.NoError(t, New(nil).IdentifyPodNetwork(info, trainJob))
			var got [][]string
			for _, p := range info.PodSets {
				got = append(got, slices.Collect(p.Endpoints))
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestWatchesTheJobSetsItOwns(t *testing.T) {
	watches := New(nil).Watches()
	assert.Equal(t, []framework.Watch{{Object: &jobsetv1alpha2.JobSet{}}}, watches)
}

func TestStatus(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	condition := func(kind jobsetv1alpha2.JobSetConditionType, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: string(kind), Status: status, Reason: reason, Message: message,
			LastTransitionTime: then, ObservedGeneration: 7,
		}
	}
	tests := map[string]struct {
		jobSet jobsetv1alpha2.JobSetStatus
		want   v1alpha1.TrainJobStatus
	}{
		"nothing is known yet": {},
		"completed": {
			jobSet: jobsetv1alpha2.JobSetStatus{Conditions: []metav1.Condition{
				condition(jobsetv1alpha2.JobSetCompleted, metav1.ConditionTrue, "AllJobsCompleted", "jobset completed successfully"),
			}},
			want: v1alpha1.TrainJobStatus{Conditions: []metav1.Condition{{
				Type: "Complete", Status: metav1.ConditionTrue, Reason: "AllJobsCompleted",
				Message: "jobset completed successfully", LastTransitionTime: then,
			}}},
		},
		"failed, with the JobSet's own reason": {
			jobSet: jobsetv1alpha2.JobSetStatus{Conditions: []metav1.Condition{
				condition(jobsetv1alpha2.JobSetFailed, metav1.ConditionTrue, "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts"),
			}},
			want: v1alpha1.TrainJobStatus{Conditions: []metav1.Condition{{
				Type: "Failed", Status: metav1.ConditionTrue, Reason: "ReachedMaxRestarts",
				Message: "jobset failed due to reaching max number of restarts", LastTransitionTime: then,
			}}},
		},
		"conditions that are false, and other ones, say nothing": {
			jobSet: jobsetv1alpha2.JobSetStatus{Conditions: []metav1.Condition{
				condition(jobsetv1alpha2.JobSetCompleted, metav1.ConditionFalse, "X", ""),
				condition(jobsetv1alpha2.JobSetFailed, metav1.ConditionUnknown, "X", ""),
				condition(jobsetv1alpha2.JobSetSuspended, metav1.ConditionTrue, "SuspendedJobs", ""),
				condition(jobsetv1alpha2.JobSetStartupPolicyInProgress, metav1.ConditionTrue, "X", ""),
			}},
		},
		"counts are taken over in their order, zeros too": {
			jobSet: jobsetv1alpha2.JobSetStatus{ReplicatedJobsStatus: []jobsetv1alpha2.ReplicatedJobStatus{
				{Name: "node", Ready: 1, Active: 2, Suspended: 3},
				{Name: "initializer", Succeeded: 4, Failed: 5},
			}},
			want: v1alpha1.TrainJobStatus{JobsStatus: []v1alpha1.JobStatus{
				{Name: "node", Ready: ptr.To[int32](1), Succeeded: ptr.To[int32](0), Failed: ptr.To[int32](0), Active: ptr.To[int32](2), Suspended: ptr.To[int32](3)},
				{Name: "initializer", Ready: ptr.To[int32](0), Succeeded: ptr.To[int32](4), Failed: ptr.To[int32](5), Active: ptr.To[int32](0), Suspended: ptr.To[int32](0)},
			}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := New(nil).Status(&v1alpha1.TrainJob{}, &jobsetv1alpha2.JobSet{Status: tt.jobSet})
			assert.Equal(t, tt.want, got)
		})
	}
}
