package translate

import (
	"fmt"
	"slices"
	"strings"
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
	// Rejected pods never get container statuses, as with kubelet.
	Rejected bool
}

// RejectedStatus is the status of a pod that the node refuses, in kubelet's
// form (kubelet's lifecycle.PodAdmitHandler: reason, and a message that starts
// with "Pod was rejected: ").
func RejectedStatus(pod *corev1.Pod, now time.Time, r Rejection) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodFailed
	status.Reason = r.Reason
	status.Message = "Pod was rejected: " + r.Message
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		status.StartTime = ptr.To(seconds(now))
	}
	return status
}

// PodStatus builds the whole status of a pod from what is known. Conditions
// that others own stay as they are. It follows kubelet's rules
// (pkg/kubelet/status/generate.go, kubelet_pods.go: getPhase).
func PodStatus(o Observation) corev1.PodStatus {
	status := *o.Pod.Status.DeepCopy()
	status.ObservedGeneration = o.Pod.Generation
	if o.Observed == nil && o.Ended == nil && status.Phase == corev1.PodRunning {
		status.EphemeralContainerStatuses = ephemeralStatuses(o.Pod)
		return status // its agent is silent, or not read yet: that is no news
	}
	status.InitContainerStatuses = containerStatuses(o, o.Pod.Spec.InitContainers, status.InitContainerStatuses, initStatuses(o))
	status.ContainerStatuses = containerStatuses(o, o.Pod.Spec.Containers, status.ContainerStatuses, mainStatuses(o))
	status.EphemeralContainerStatuses = ephemeralStatuses(o.Pod)
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

	if o.Agent != nil {
		status.HostIP = o.Agent.Address
		status.HostIPs = []corev1.HostIP{{IP: o.Agent.Address}}
		status.PodIP = o.Agent.Address
		status.PodIPs = []corev1.PodIP{{IP: o.Agent.Address}}
	}
	if status.StartTime == nil && o.Observed != nil && !o.Observed.Started.IsZero() {
		// Not before: the queue's time is not the pod's (activeDeadlineSeconds
		// counts from here).
		status.StartTime = ptr.To(seconds(o.Observed.Started))
	}
	status.Conditions = conditions(o, status)
	return status
}

// ephemeralStatuses tell whoever tries kubectl debug that such a container is
// never started here.
func ephemeralStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range pod.Spec.EphemeralContainers {
		statuses = append(statuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason:  wellknown.ReasonUnsupported + "EphemeralContainers",
				Message: "ephemeral containers are never started on this node; use kubectl exec",
			}},
		})
	}
	return statuses
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

// containerStatuses gives each container of the spec a status: the agent's
// where there is one, what the API server has where the agent fell silent, and
// otherwise the reason for waiting.
func containerStatuses(o Observation, specs []corev1.Container, before, observed []corev1.ContainerStatus) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, 0, len(specs))
	for _, c := range specs {
		s, seen := find(observed, c.Name)
		if !seen {
			old, known := find(before, c.Name)
			if known && old.State.Waiting == nil {
				s, seen = old, true
			}
		}
		if !seen {
			s = corev1.ContainerStatus{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: containerWaiting(o), Message: o.Waiting.Message},
			}}
		}
		s.Name = c.Name
		s.Image = c.Image
		if s.ImageID == "" && s.ContainerID != "" {
			s.ImageID = "host" // the image is a label: the program is the HPC node's own
		}
		s.Started = ptr.To(ptr.Deref(s.Started, false))
		if o.Ended != nil && s.State.Terminated == nil {
			s = endedContainer(s, *o.Ended, o.Now)
		}
		statuses = append(statuses, s)
	}
	return statuses
}

func containerWaiting(o Observation) string {
	if o.Waiting.Reason == "" {
		return wellknown.ReasonContainerCreating
	}
	return o.Waiting.Reason
}

func endedContainer(s corev1.ContainerStatus, e Ending, now time.Time) corev1.ContainerStatus {
	terminated := &corev1.ContainerStateTerminated{
		ExitCode: e.ExitCode, Reason: e.ContainerReason, Message: e.Message,
		FinishedAt: seconds(now), ContainerID: s.ContainerID,
	}
	if s.State.Running != nil {
		terminated.StartedAt = s.State.Running.StartedAt
	}
	s.State = corev1.ContainerState{Terminated: terminated}
	s.Ready = false
	s.Started = ptr.To(false)
	return s
}

func find(statuses []corev1.ContainerStatus, name string) (corev1.ContainerStatus, bool) {
	for _, s := range statuses {
		if s.Name == name {
			return *s.DeepCopy(), true
		}
	}
	return corev1.ContainerStatus{}, false
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

// conditions are those a kubelet owns; every other one is kept.
func conditions(o Observation, s corev1.PodStatus) []corev1.PodCondition {
	terminal := ""
	switch s.Phase {
	case corev1.PodSucceeded:
		terminal = "PodCompleted"
	case corev1.PodFailed:
		terminal = "PodFailed"
	}
	own := []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		readyToStart(o),
		initialized(o.Pod, s, terminal),
	}
	ready := containersReady(o.Pod, s, terminal)
	own = append(own, ready, podReady(o.Pod, ready))
	if o.Ended != nil && o.Ended.Disruption {
		own = append(own, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonTerminationByKubelet, Message: o.Ended.Message,
		})
	}
	result := slices.Clone(o.Pod.Status.Conditions)
	for _, c := range own {
		c.ObservedGeneration = o.Pod.Generation
		i := slices.IndexFunc(result, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		if i < 0 {
			c.LastTransitionTime = seconds(o.Now)
			result = append(result, c)
			continue
		}
		c.LastTransitionTime = result[i].LastTransitionTime
		if result[i].Status != c.Status {
			c.LastTransitionTime = seconds(o.Now)
		}
		c.LastProbeTime = result[i].LastProbeTime
		result[i] = c
	}
	return result
}

func readyToStart(o Observation) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if o.Agent == nil || o.Ended != nil {
		c.Status, c.Reason = corev1.ConditionFalse, "PodSandboxNotReady"
		c.Message = o.Waiting.Message
	}
	return c
}

func initialized(pod *corev1.Pod, s corev1.PodStatus, terminal string) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if terminal == "PodCompleted" {
		c.Reason = terminal
		return c
	}
	if slices.ContainsFunc(s.ContainerStatuses, hasStarted) {
		return c // a sidecar that starts again does not undo it
	}
	var incomplete []string
	for i, init := range s.InitContainerStatuses {
		done := init.Ready
		if sidecar(pod.Spec.InitContainers[i]) {
			done = ptr.Deref(init.Started, false)
		}
		if !done {
			incomplete = append(incomplete, init.Name)
		}
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: %v", incomplete)
	}
	return c
}

func sidecar(c corev1.Container) bool {
	return ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// hasStarted tells that a container runs, or ran last.
func hasStarted(s corev1.ContainerStatus) bool {
	ended := s.State.Terminated
	return s.State.Running != nil || ended != nil && !ended.StartedAt.IsZero()
}

func containersReady(pod *corev1.Pod, s corev1.PodStatus, terminal string) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	if terminal != "" {
		c.Status, c.Reason = corev1.ConditionFalse, terminal
		return c
	}
	var unready []string
	for i, cs := range s.InitContainerStatuses {
		if sidecar(pod.Spec.InitContainers[i]) && !cs.Ready {
			unready = append(unready, cs.Name)
		}
	}
	for _, cs := range s.ContainerStatuses {
		if !cs.Ready {
			unready = append(unready, cs.Name)
		}
	}
	if len(unready) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
		c.Message = fmt.Sprintf("containers with unready status: %v", unready)
	}
	return c
}

func podReady(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var messages []string
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, func(have corev1.PodCondition) bool { return have.Type == gate.ConditionType })
		switch {
		case i < 0:
			messages = append(messages, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case pod.Status.Conditions[i].Status != corev1.ConditionTrue:
			messages = append(messages, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, pod.Status.Conditions[i].Status))
		}
	}
	if len(messages) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(messages, ", ")
	}
	return c
}

// seconds is a time as the API server keeps it: finer ones would make every
// comparison differ.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
