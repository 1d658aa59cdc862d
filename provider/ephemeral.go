package provider

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

// ephemeralOrders are those of the pod's ephemeral containers that its agent does
// not know yet. What the others wait for is noted on the pod; those that are refused
// by the table tell so in their status.
func (r *Reconciler) ephemeralOrders(ctx context.Context, s *state, p *podState, in *inputs) ([]spool.ContainerOrders, error) {
	refused := translate.RefusedEphemeral(p.pod)
	wanted := func(name string) bool {
		_, no := refused[name]
		return !no && !slices.ContainsFunc(p.observed.EphemeralContainers, func(c corev1.ContainerStatus) bool { return c.Name == name })
	}
	if !slices.ContainsFunc(p.pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return wanted(c.Name) }) {
		return nil, nil
	}
	values, err := in.of(ctx, p.pod, translate.EphemeralReferences(p.pod))
	if err != nil {
		return nil, err
	}
	meeting, err := r.complete(s, p, &values)
	if err != nil {
		return nil, err
	}
	orders, waits, err := translate.EphemeralOrders(p.pod, values, wanted)
	if err != nil {
		return nil, err
	}
	if p.ephemeral = waits; len(waits) > 0 {
		s.within(missingAgain)
	}
	r.tellEphemeral(p)
	return orders, s.alloc.keepMeeting(ctx, meeting)
}

// tellEphemeral tells what ephemeral containers wait for, where that is new.
func (r *Reconciler) tellEphemeral(p *podState) {
	for name, w := range p.ephemeral {
		was := statusOf(p.pod.Status.EphemeralContainerStatuses, name).State.Waiting
		if was == nil || was.Message != w.Message {
			r.recorder.Event(podReference(p.pod, containerPath("ephemeralContainers", name)),
				corev1.EventTypeWarning, "Failed", "Error: "+w.Message)
		}
	}
}
