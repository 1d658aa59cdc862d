package explain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	timeunits "k8s.io/apimachinery/pkg/util/duration"

	"github.com/gangline/gangline/plugin/gangs"
)

// when is a time in the reader's zone, with how far away it is: "14:05 (12m ago)".
func (f Facts) when(at time.Time) string {
	local := at.In(f.Now.Location())
	layout := "15:04"
	if y, m, d := f.Now.Date(); local.Year() != y || local.Month() != m || local.Day() != d {
		layout = "2 Jan 15:04"
	}
	if away := at.Sub(f.Now); away > 0 {
		return local.Format(layout) + " (in " + duration(away) + ")"
	}
	return local.Format(layout) + " (" + duration(f.Now.Sub(at)) + " ago)"
}

func duration(d time.Duration) string { return timeunits.HumanDuration(d) }

// since is when a state began, nil if nobody has noted it.
func since(s gangs.State, g gangs.Gang, pod *corev1.Pod) *metav1.Time {
	switch s {
	case gangs.Queued:
		return g.Submitted
	case gangs.Starting:
		return ready(pod)
	case gangs.Running, gangs.Refused:
		return pod.Status.StartTime
	case gangs.Stopping:
		return pod.DeletionTimestamp
	case gangs.Completed, gangs.Failed:
		return ended(pod)
	}
	return &g.Created
}

// ready is when the pod had a place to run at.
func ready(pod *corev1.Pod) *metav1.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue {
			return &c.LastTransitionTime
		}
	}
	return nil
}

// ended is when the last of a pod's containers ended.
func ended(pod *corev1.Pod) *metav1.Time {
	var last *metav1.Time
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if end := c.State.Terminated; end != nil && !end.FinishedAt.IsZero() && (last == nil || last.Before(&end.FinishedAt)) {
			last = &end.FinishedAt
		}
	}
	return last
}
