package translate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

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
		readyToStart(o, terminal),
		initialized(o.Pod, s, terminal),
	}
	ready := containersReady(o.Pod, s, terminal)
	own = append(own, ready, podReady(o.Pod, ready))
	if couldRestartAll(o.Pod) {
		own = append(own, restartingAll(o, terminal))
	}
	if o.Ended != nil && o.Ended.Disruption {
		own = append(own, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonTerminationByKubelet, Message: o.Ended.Message,
		})
	}
	result := slices.Clone(o.Pod.Status.Conditions)
	for _, c := range own {
		result = withCondition(result, c, o)
	}
	return result
}

// withCondition sets a condition. Its transition time is another only where its
// status is.
func withCondition(list []corev1.PodCondition, c corev1.PodCondition, o Observation) []corev1.PodCondition {
	c.ObservedGeneration = o.Pod.Generation
	c.LastTransitionTime = seconds(o.Now)
	i := conditionIndex(list, c.Type)
	if i < 0 {
		return append(list, c)
	}
	if list[i].Status == c.Status {
		c.LastTransitionTime = list[i].LastTransitionTime
	}
	c.LastProbeTime = list[i].LastProbeTime
	list[i] = c
	return list
}

func conditionIndex(list []corev1.PodCondition, kind corev1.PodConditionType) int {
	return slices.IndexFunc(list, func(c corev1.PodCondition) bool { return c.Type == kind })
}

// readyToStart tells whether there is a place where the pod's containers can run:
// from when the agent of its slot has reported, until nothing of it runs any more.
func readyToStart(o Observation, terminal string) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if o.Agent == nil || terminal != "" {
		c.Status, c.Reason = corev1.ConditionFalse, "PodSandboxNotReady"
		if terminal == "" {
			c.Message = o.Waiting.Message
		}
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
	i := conditionIndex(pod.Status.Conditions, corev1.PodInitialized)
	was := i >= 0 && pod.Status.Conditions[i].Status == corev1.ConditionTrue
	if len(incomplete) > 0 && !(was && couldRestartAll(pod)) {
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
		i := conditionIndex(pod.Status.Conditions, gate.ConditionType)
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

// couldRestartAll tells that a container's end may restart the whole pod.
func couldRestartAll(pod *corev1.Pod) bool {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, r := range c.RestartPolicyRules {
			if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

func restartingAll(o Observation, terminal string) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse, Reason: terminal}
	if terminal == "" && o.Observed != nil && o.Observed.Restarting {
		c.Status, c.Reason = corev1.ConditionTrue, "RestartAllContainersStarted"
		c.Message = "container exited with restart policy rule"
	}
	return c
}

// resized answers an in-place resize: a pod whose spec asks for other resources than
// it was given has a condition that says no, for as long as that is so.
func resized(o Observation, s corev1.PodStatus, list []corev1.PodCondition) []corev1.PodCondition {
	terminal := s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
	var others []string
	for _, c := range slices.Concat(o.Pod.Spec.InitContainers, o.Pod.Spec.Containers) {
		status, _ := find(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses), c.Name)
		if given := status.Resources; given != nil && !sameResources(*given, c.Resources) {
			others = append(others, c.Name)
		}
	}
	if terminal || len(others) == 0 {
		return slices.DeleteFunc(list, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	}
	return withCondition(list, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
		Message: fmt.Sprintf("an allocation keeps its size, so containers %v keep what they were given; "+
			"delete the pod and create it with the new resources", others),
	}, o)
}

func sameResources(a, b corev1.ResourceRequirements) bool {
	return equality.Semantic.DeepEqual(a.Requests, b.Requests) && equality.Semantic.DeepEqual(a.Limits, b.Limits)
}
