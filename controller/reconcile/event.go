package reconcile

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

const (
	reportingController = "trainer-trainjob-controller"
	reasonFailed        = "TrainJobResourcesCreationFailed"
	reasonInvalidPods   = "InvalidPodTemplate"
	actionReconciling   = "Reconciling"
	// maxNote is how much of an error fits an Event, which holds 1 KiB.
	maxNote = 950
)

// report tells the user why the TrainJob's objects are not what they should be.
func (r *Reconciler) report(trainJob *v1alpha1.TrainJob, failure error) {
	r.events.Eventf(trainJob, nil, corev1.EventTypeWarning, reasonFailed, actionReconciling,
		"TrainJob resources reconciliation failed: %s", short(failure))
}

// reportPods tells the user why no pod will come of the TrainJob's JobSet.
func (r *Reconciler) reportPods(trainJob *v1alpha1.TrainJob, problems []string) {
	r.events.Eventf(trainJob, nil, corev1.EventTypeWarning, reasonInvalidPods, actionReconciling,
		"It will not start: %s", short(errors.New(strings.Join(problems, "; "))))
}

// short is an error's text, or the beginning of a long one: a JobSet that refuses
// a change quotes all of its replicated jobs.
func short(err error) string {
	text := err.Error()
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "") + " ..." // no half character
	}
	return text
}
