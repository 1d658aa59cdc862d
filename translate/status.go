package translate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// Observation is all that is known of one pod at one moment.
type Observation struct {
	Pod *corev1.Pod
	Now time.Time
	// Waiting says what the pod waits for while no process of it has started.
	Waiting Waiting
	// Agent is the agent of the pod's slot, once it has reported.
	Agent *spool.Agent
	// Observed is the agent's word about the pod, nil before it has one.
	Observed *spool.PodStatus
	// Ephemeral says for ephemeral containers, by name, why they cannot start yet.
	Ephemeral map[string]Waiting
	// Ended is set when the pod can run no more for a reason of its own or of
	// its allocation, and no process of it is left.
	Ended *Ending
}

// Waiting is why a pod has not started.
type Waiting struct {
	Reason  string
	Message string
}

// Ending is why a pod ends that did not end by itself.
type Ending struct {
	Reason  string
	Message string
	// ContainerReason and ExitCode go to the containers that were running or
	// had not started.
	ContainerReason string
	ExitCode        int32
	// Disruption marks an infrastructure's fault (DisruptionTarget), which a
	// Job's podFailurePolicy may ignore.
	Disruption bool
}

// RejectedStatus is the status of a pod that the node refuses, in kubelet's
// form (kubelet's lifecycle.PodAdmitHandler: reason, and a message that starts
// with wellknown.Rejected).
//
// A controller that makes another pod at once, and again and again, is no help to
// anybody: pods of such controllers wait with the reason instead.
func RejectedStatus(pod *corev1.Pod, now time.Time, r Rejection) corev1.PodStatus {
	if remadeAtOnce(pod) {
		return PodStatus(Observation{Pod: pod, Now: now, Waiting: Waiting{Reason: r.Reason, Message: wellknown.Rejected + r.Message}})
	}
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodFailed
	status.Reason = r.Reason
	status.Message = wellknown.Rejected + r.Message
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		status.StartTime = ptr.To(seconds(now))
	}
	return status
}

// remadeAtOnce tells whether the pod's controller puts another one in the place of a
// failed one without a pause. Jobs and DaemonSets back off.
func remadeAtOnce(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && slices.Contains([]string{"ReplicaSet", "StatefulSet", "ReplicationController"}, owner.Kind)
}

// PodStatus builds the whole status of a pod from what is known. Conditions
// that others own stay as they are. It follows kubelet's rules
// (pkg/kubelet/status/generate.go, kubelet_pods.go: getPhase).
func PodStatus(o Observation) corev1.PodStatus {
	o = o.trusted()
	status := *o.Pod.Status.DeepCopy()
	status.ObservedGeneration = o.Pod.Generation
	if o.Observed == nil && o.Ended == nil && status.Phase == corev1.PodRunning {
		// Its agent is silent, or not read yet: that is no news.
		status.EphemeralContainerStatuses = ephemeralStatuses(o)
		status.Conditions = resized(o, status, status.Conditions)
		return status
	}
	status.InitContainerStatuses = containerStatuses(o, o.Pod.Spec.InitContainers, status.InitContainerStatuses, initStatuses(o))
	status.ContainerStatuses = containerStatuses(o, o.Pod.Spec.Containers, status.ContainerStatuses, mainStatuses(o))
	status.EphemeralContainerStatuses = ephemeralStatuses(o)
	if o.Ended != nil {
		end(o.Pod, &status, *o.Ended, o.Now)
	}
	slices.SortFunc(status.ContainerStatuses, func(a, b corev1.ContainerStatus) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})

	status.Phase = phase(o, status)
	status.Reason, status.Message = o.Waiting.Reason, o.Waiting.Message
	if o.Observed != nil {
		status.Reason, status.Message = o.Observed.Reason, o.Observed.Message
	}
	if o.Ended != nil {
		status.Reason, status.Message = o.Ended.Reason, o.Ended.Message
	}

	if o.Agent != nil && o.Agent.Address != "" {
		status.HostIP = o.Agent.Address
		status.HostIPs = []corev1.HostIP{{IP: o.Agent.Address}}
		status.PodIP = o.Agent.Address
		status.PodIPs = []corev1.PodIP{{IP: o.Agent.Address}}
	}
	if at := begun(o.Observed); status.StartTime == nil && !at.IsZero() {
		// Not before: the queue's time is not the pod's (activeDeadlineSeconds
		// counts from here).
		status.StartTime = ptr.To(seconds(at))
	}
	status.Conditions = resized(o, status, conditions(o, status))
	return status
}

// begun is when the pod's first container was started, or could not be.
func begun(p *spool.PodStatus) time.Time {
	if p == nil {
		return time.Time{}
	}
	if !p.Started.IsZero() {
		return p.Started
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		if end := c.State.Terminated; end != nil {
			return end.StartedAt.Time
		}
	}
	return time.Time{}
}

func initStatuses(o Observation) []corev1.ContainerStatus {
	if o.Observed == nil {
		return nil
	}
	return o.Observed.InitContainers
}

func mainStatuses(o Observation) []corev1.ContainerStatus {
	if o.Observed == nil {
		return nil
	}
	return o.Observed.Containers
}

// phase follows kubelet's getPhase, with one rule of its own: a pod is never
// terminal while something of it may still run, so that word comes from the
// agent (Done) or from the allocation's end. A terminal phase is never left.
func phase(o Observation, s corev1.PodStatus) corev1.PodPhase {
	if p := o.Pod.Status.Phase; p == corev1.PodFailed || p == corev1.PodSucceeded {
		return p
	}
	if o.Ended != nil {
		return corev1.PodFailed
	}
	if o.Observed == nil {
		return corev1.PodPending
	}
	if !o.Observed.Done || o.Observed.Interrupted {
		// What was interrupted ends with its allocation (Ended), not before.
		if allStarted(s.ContainerStatuses) {
			return corev1.PodRunning
		}
		return corev1.PodPending
	}
	if o.Observed.Reason != "" {
		return corev1.PodFailed
	}
	for _, c := range s.ContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

func allStarted(statuses []corev1.ContainerStatus) bool {
	for _, s := range statuses {
		if s.State.Running == nil && s.State.Terminated == nil && s.LastTerminationState.Terminated == nil {
			return false
		}
	}
	return true
}

// seconds is a time as the API server keeps it: finer ones would make every
// comparison differ.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
