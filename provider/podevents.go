package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/gangline/gangline/provider/spool"
)

// How many Events of one pod's agent are told: as many as client-go lets through
// of one object. Who can write the spool must not be able to flood the API server.
const (
	agentEventsBurst = 25
	agentEventsRate  = 1.0 / 300 // a second
	maxEventMessage  = 1024      // bytes
	maxEventReason   = 128       // likewise, and as the API of Events has it
)

// telling is how far a pod's agent's Events have been told.
type telling struct {
	upTo  time.Time
	limit flowcontrol.PassiveRateLimiter
	// writes paces the writes of the pod's status.
	writes flowcontrol.PassiveRateLimiter
	// absent are the Events about objects that do not exist, each told once.
	absent map[string]bool
}

// tellAgent turns what a pod's agent has reported into Events. The Event's name is
// made of its time: a provider that begins anew finds those there that it told
// before.
func (r *Reconciler) tellAgent(ctx context.Context, s *state, p *podState) error {
	if p.observed == nil || len(p.observed.Events) == 0 {
		return nil
	}
	t := s.note.telling(p.pod.UID)
	for _, e := range p.observed.Events {
		if !e.Time.After(t.upTo) {
			continue
		}
		if t.limit.TryAccept() {
			_, err := r.clientset.CoreV1().Events(p.pod.Namespace).Create(ctx, agentEvent(p.pod, e, r.config.NodeName), metav1.CreateOptions{})
			if isTemporary(err) {
				return fmt.Errorf("telling an Event of pod %s/%s: %w", p.pod.Namespace, p.pod.Name, err)
			}
			if err != nil && !apierrors.IsAlreadyExists(err) {
				logr.FromContextOrDiscard(ctx).Error(err, "an Event of a pod was refused; it is not told", "pod", p.pod.Namespace+"/"+p.pod.Name)
			}
		}
		t.upTo = e.Time
	}
	return nil
}

// tellStop tells that the pod's containers are being stopped, each one that runs, as
// kubelet does.
func (r *Reconciler) tellStop(p *podState) {
	told := false
	for _, list := range containerLists() {
		for _, c := range list.statuses(p.pod.Status) {
			if c.State.Running == nil {
				continue
			}
			told = true
			r.recorder.Eventf(podReference(p.pod, containerPath(list.field, c.Name)), corev1.EventTypeNormal, "Killing",
				"Stopping container %s, grace period %d s", c.Name, p.grace)
		}
	}
	if !told {
		r.event(p.pod, corev1.EventTypeNormal, "Killing", "Stopping the pod, grace period %d s", p.grace)
	}
}

// isTemporary leaves out what the API server has refused for good: it would again, as
// where a quota of Events is used up, and the gang has other things to do. (client-go's
// recorder drops such Events too.)
func isTemporary(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable:
		return true
	case metav1.StatusReasonUnknown: // no answer
		return err != nil
	}
	return false
}

// agentEvent is an Event as kubelet would record it.
func agentEvent(pod *corev1.Pod, e spool.Event, node string) *corev1.Event {
	list, path := "", ""
	for _, c := range pod.Spec.Containers {
		if c.Name == e.Container {
			list = "containers"
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if c.Name == e.Container {
			list = "initContainers"
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == e.Container {
			list = "ephemeralContainers"
		}
	}
	if list != "" { // else it is the whole pod's
		path = containerPath(list, e.Container)
	}
	kind := corev1.EventTypeNormal
	if e.Type == corev1.EventTypeWarning {
		kind = corev1.EventTypeWarning
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: util.GenerateEventName(pod.Name, e.Time.UnixNano())},
		InvolvedObject: *podReference(pod, path),
		Type:           kind, Reason: bounded(e.Reason, maxEventReason), Message: bounded(e.Message, maxEventMessage),
		FirstTimestamp: metav1.NewTime(e.Time), LastTimestamp: metav1.NewTime(e.Time), Count: 1,
		Source:              corev1.EventSource{Component: component, Host: node},
		ReportingController: component, ReportingInstance: node,
	}
}

// bounded cuts a text of the spool's to so many bytes.
func bounded(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
