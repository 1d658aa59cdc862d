package reconcile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

const (
	reportingController = "trainer-trainjob-controller"
	reasonFailed        = "TrainJobResourcesCreationFailed"
	actionReconciling   = "Reconciling"
	// maxNote is how much of an error fits an Event, which holds 1 KiB.
	maxNote = 950
)

// report tells the user why the TrainJob's objects are not what they should be.
func (r *Reconciler) report(trainJob *v1alpha1.TrainJob, failure error) {
	text := failure.Error()
	if len(text) > maxNote {
		text = text[:maxNote] + " ..."
	}
	r.events.Eventf(trainJob, nil, corev1.EventTypeWarning, reasonFailed, actionReconciling,
		"TrainJob resources reconciliation failed: %s", text)
}
