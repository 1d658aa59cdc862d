package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

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
)

// telling is how far a pod's agent's Events have been told.
type telling struct {
	upTo  time.Time
	limit flowcontrol.PassiveRateLimiter
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
			if err := ignoreUntellable(err); err != nil {
				return fmt.Errorf("telling an Event of pod %s/%s: %w", p.pod.Namespace, p.pod.Name, err)
			}
		}
		t.upTo = e.Time
	}
	return nil
}

// ignoreUntellable leaves the errors after which another try makes sense.
func ignoreUntellable(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// agentEvent is an Event as kubelet would record it.
func agentEvent(pod *corev1.Pod, e spool.Event, node string) *corev1.Event {
	list := "containers"
	for _, c := range pod.Spec.InitContainers {
		if c.Name == e.Container {
			list = "initContainers"
		}
	}
	kind := corev1.EventTypeNormal
	if e.Type == corev1.EventTypeWarning {
		kind = corev1.EventTypeWarning
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: util.GenerateEventName(pod.Name, e.Time.UnixNano())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion, FieldPath: fmt.Sprintf("spec.%s{%s}", list, e.Container),
		},
		Type: kind, Reason: e.Reason, Message: strings.ToValidUTF8(e.Message[:min(len(e.Message), maxEventMessage)], ""),
		FirstTimestamp: metav1.NewTime(e.Time), LastTimestamp: metav1.NewTime(e.Time), Count: 1,
		Source:              corev1.EventSource{Component: component, Host: node},
		ReportingController: component, ReportingInstance: node,
	}
}
