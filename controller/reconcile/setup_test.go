package reconcile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

func TestWhichCreationsAreLookedAt(t *testing.T) {
	cases := map[string]struct {
		object client.Object
		want   bool
	}{
		"a new JobSet is our own":         {object: &jobsetv1alpha2.JobSet{}},
		"a new Secret is our own":         {object: &corev1.Secret{}},
		"metadata that appear are as new": {object: &metav1.PartialObjectMetadata{}},
		"a JobSet that has completed while the watch was interrupted": {
			object: &jobsetv1alpha2.JobSet{Status: jobsetv1alpha2.JobSetStatus{
				Conditions: []metav1.Condition{{Type: "Completed", Status: metav1.ConditionTrue}},
			}},
			want: true,
		},
		"a JobSet that has begun while the watch was interrupted": {
			object: &jobsetv1alpha2.JobSet{Status: jobsetv1alpha2.JobSetStatus{
				ReplicatedJobsStatus: []jobsetv1alpha2.ReplicatedJobStatus{{Name: "node", Active: 1}},
			}},
			want: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, components(&endings{}).Create(event.CreateEvent{Object: c.object}))
		})
	}
}
