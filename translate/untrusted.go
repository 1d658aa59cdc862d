package translate

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/spool"
)

// What an agent says comes by way of the spool, where its user can write anything. The
// bounds, in bytes, are more than an honest agent says, and keep pods' objects small.
const (
	maxReported = 4 << 10 // a text for people
	maxWord     = 256     // a reason, an id
)

// trusted is an observation of which all that an agent says is bounded, and nothing is left
// that is not an agent's to say.
func (o Observation) trusted() Observation {
	if o.Observed != nil {
		p := *o.Observed
		p.Reason, p.Message = bounded(p.Reason, maxWord), bounded(p.Message, maxReported)
		p.InitContainers, p.Containers = trustedStatuses(p.InitContainers), trustedStatuses(p.Containers)
		p.EphemeralContainers = trustedStatuses(p.EphemeralContainers)
		p.Started = inRange(metav1.NewTime(p.Started)).Time
		o.Observed = &p
	}
	if o.Agent != nil {
		o.Agent = trustedAgent(*o.Agent)
	}
	return o
}

// trustedAgent has an address that is one, or none: a name could mean anything to whoever
// looks it up.
func trustedAgent(a spool.Agent) *spool.Agent {
	if ip, err := netip.ParseAddr(a.Address); err != nil || ip.Zone() != "" {
		a.Address = "" // of an interface's own address nobody else has the use
	}
	return &a
}

func trustedStatuses(reported []corev1.ContainerStatus) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, s := range reported {
		all = append(all, corev1.ContainerStatus{
			Name: s.Name, Ready: s.Ready, RestartCount: max(0, s.RestartCount), Started: s.Started,
			ContainerID: bounded(s.ContainerID, maxWord), ImageID: bounded(s.ImageID, maxReported),
			State: trustedState(s.State), LastTerminationState: trustedState(s.LastTerminationState),
		})
	}
	return all
}

// trustedState is one state: the API knows none that is two at once.
func trustedState(s corev1.ContainerState) corev1.ContainerState {
	switch {
	case s.Terminated != nil:
		end := *s.Terminated
		end.Reason, end.ContainerID = bounded(end.Reason, maxWord), bounded(end.ContainerID, maxWord)
		end.Message = bounded(end.Message, maxPodMessages)
		end.StartedAt, end.FinishedAt = inRange(end.StartedAt), inRange(end.FinishedAt)
		return corev1.ContainerState{Terminated: &end}
	case s.Running != nil:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: inRange(s.Running.StartedAt)}}
	case s.Waiting != nil:
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: bounded(s.Waiting.Reason, maxWord), Message: bounded(s.Waiting.Message, maxReported)}}
	}
	return s
}

// inRange leaves out a time that the API has no form for.
func inRange(t metav1.Time) metav1.Time {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return metav1.Time{}
	}
	return t
}

// bounded is the beginning of a text, in so many bytes.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
