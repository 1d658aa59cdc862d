package reconcile

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// endings remember the JobSets that had ended when they were deleted. One may be
// gone (ttlSecondsAfterFinished) before its TrainJob has been looked at, or before
// the cache has what was written of the TrainJob then: without the JobSet's last
// words the training would run once more.
type endings struct {
	mu   sync.Mutex
	last map[types.NamespacedName]*jobsetv1alpha2.JobSet // by TrainJob
}

// note takes a deleted object. TrainJobs' JobSets only are kept: whose deletion
// is followed by a look, which forgets them again.
func (e *endings) note(object client.Object) {
	jobSet, ok := object.(*jobsetv1alpha2.JobSet)
	if !ok || !hasEnded(jobSet) {
		return
	}
	owner := metav1.GetControllerOf(jobSet)
	if owner == nil || owner.Kind != v1alpha1.TrainJobKind || owner.Name != jobSet.Name {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		e.last = map[types.NamespacedName]*jobsetv1alpha2.JobSet{}
	}
	e.last[client.ObjectKeyFromObject(jobSet)] = jobSet
}

// of is the JobSet of that name which has ended and is gone, nil if there is none.
func (e *endings) of(trainJob types.NamespacedName) *jobsetv1alpha2.JobSet {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last[trainJob]
}

func (e *endings) forget(trainJob types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.last, trainJob)
}

func hasEnded(jobSet *jobsetv1alpha2.JobSet) bool {
	for _, c := range jobSet.Status.Conditions {
		switch jobsetv1alpha2.JobSetConditionType(c.Type) {
		case jobsetv1alpha2.JobSetCompleted, jobsetv1alpha2.JobSetFailed:
			if c.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}
