package jobset

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// Status takes over the JobSet's end, with its reason, message and time, and its
// counts of Jobs. The JobSet's other conditions are not the TrainJob's: the SDK
// takes a TrainJob for running only while it has none.
func (*Plugin) Status(_ *v1alpha1.TrainJob, jobSet *jobsetv1alpha2.JobSet) v1alpha1.TrainJobStatus {
	ends := []struct {
		from jobsetv1alpha2.JobSetConditionType
		to   string
	}{
		{jobsetv1alpha2.JobSetCompleted, v1alpha1.TrainJobComplete},
		{jobsetv1alpha2.JobSetFailed, v1alpha1.TrainJobFailed},
	}
	var status v1alpha1.TrainJobStatus
	for _, end := range ends {
		c := meta.FindStatusCondition(jobSet.Status.Conditions, string(end.from))
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: end.to, Status: c.Status, Reason: c.Reason, Message: c.Message,
			LastTransitionTime: c.LastTransitionTime,
		})
	}
	for _, job := range jobSet.Status.ReplicatedJobsStatus {
		status.JobsStatus = append(status.JobsStatus, v1alpha1.JobStatus{
			Name:      job.Name,
			Ready:     ptr.To(job.Ready),
			Succeeded: ptr.To(job.Succeeded),
			Failed:    ptr.To(job.Failed),
			Active:    ptr.To(job.Active),
			Suspended: ptr.To(job.Suspended),
		})
	}
	return status
}
