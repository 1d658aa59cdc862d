package lifecycle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/spool"
)

// Status is the pod's in the spool's terms. Done is left to the caller, who may
// have to clean up first.
func (p *Pod) Status() spool.PodStatus {
	waiting := reasonCreating
	if len(p.inits) > 0 {
		waiting = reasonInitializing
	}
	return spool.PodStatus{
		UID:                 p.uid,
		Started:             p.started,
		Restarting:          p.restarting,
		InitContainers:      p.statuses(p.inits, waiting),
		Containers:          p.statuses(p.mains, waiting),
		EphemeralContainers: p.statuses(p.ephemerals, reasonCreating),
		Events:              slices.Clone(p.events),
	}
}

func (p *Pod) statuses(of []*container, waiting string) []corev1.ContainerStatus {
	if len(of) == 0 {
		return nil
	}
	list := make([]corev1.ContainerStatus, len(of))
	for i, c := range of {
		list[i] = c.status(waiting, p.name)
	}
	return list
}

// status is the container's in Kubernetes' terms. The pod's name is for the
// message of a back-off.
func (c *container) status(waiting, pod string) corev1.ContainerStatus {
	up, run := c.up(), c.run
	if c.pull.underway {
		run = c.pull.before.run // as with kubelet, it counts when it has its image
	}
	s := corev1.ContainerStatus{
		Name:         c.name,
		RestartCount: int32(run), //nolint:gosec // back-off keeps it small
		Started:      &up,
		Ready:        c.ready(),
	}
	if c.alive() || c.phase == ended {
		s.ContainerID = c.id()
	}
	if s.ContainerID != "" {
		s.ImageID = c.pull.id
	}
	last := c.terminated
	image := c.waitingForImage()
	switch {
	case image != nil:
		s.State.Waiting = image
	case c.phase == running:
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.startedAt)}
	case c.waitsForBackOff:
		s.State.Waiting = &corev1.ContainerStateWaiting{
			Reason:  reasonBackOff,
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", c.backOff, c.name, pod),
		}
	case c.phase == ended:
		s.State.Terminated = c.terminated
		last = c.previous
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
	}
	s.LastTerminationState.Terminated = last
	return s
}
