package provider

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

// tale is what an Event tells of a pod. The path names the container that it is
// about, as "spec.containers{main}"; it is empty for the whole pod.
type tale struct {
	path, kind, reason, message string
}

// tellTransition records what has just been written of a pod as Events.
func (r *Reconciler) tellTransition(before, after *corev1.Pod) {
	for _, t := range transition(before, after) {
		r.recorder.Event(podReference(after, t.path), t.kind, t.reason, t.message)
	}
}

// transition is what is to be told of a pod's change from one status to the next,
// with kubelet's reasons: its containers' starts, failures and back-offs, the answer
// to a resize, and the pod's end.
func transition(before, after *corev1.Pod) []tale {
	tales := allocationTales(before, after)
	for _, list := range containerLists() {
		for _, c := range list.statuses(after.Status) {
			was := statusOf(list.statuses(before.Status), c.Name)
			for _, t := range containerTales(after, was, c) {
				t.path = containerPath(list.field, c.Name)
				tales = append(tales, t)
			}
		}
	}
	tales = append(tales, resizeTales(before, after)...)
	return append(tales, endTales(before, after)...)
}

// allocationTales tell that the job which a pod waited for has its nodes.
func allocationTales(before, after *corev1.Pod) []tale {
	waited := slices.Contains([]string{ // what passes is not written, so any of them may be the last that was
		wellknown.ReasonWaitingForGang, wellknown.ReasonWaitingForDependency, wellknown.ReasonSubmitting,
		wellknown.ReasonSubmissionFailed, wellknown.ReasonQueued,
	}, before.Status.Reason)
	node := after.Annotations[wellknown.AnnotationHPCNode]
	if !waited || after.Status.Reason != wellknown.ReasonStarting && node == "" {
		return nil
	}
	message := "The job has started on " + node
	if after.Status.Reason == wellknown.ReasonStarting {
		message = after.Status.Message
	}
	return []tale{{kind: corev1.EventTypeNormal, reason: wellknown.ReasonAllocationStarted, message: message}}
}

// containerList is one of a pod's lists of containers.
type containerList struct {
	field    string
	statuses func(corev1.PodStatus) []corev1.ContainerStatus
}

func containerLists() []containerList {
	return []containerList{
		{"initContainers", func(s corev1.PodStatus) []corev1.ContainerStatus { return s.InitContainerStatuses }},
		{"containers", func(s corev1.PodStatus) []corev1.ContainerStatus { return s.ContainerStatuses }},
		{"ephemeralContainers", func(s corev1.PodStatus) []corev1.ContainerStatus { return s.EphemeralContainerStatuses }},
	}
}

// containerPath names a container of a pod, as in kubelet's Events.
func containerPath(list, name string) string {
	if name == "" {
		return "" // the pod as a whole
	}
	return fmt.Sprintf("spec.%s{%s}", list, name)
}

// statusOf is a container's status, or an empty one.
func statusOf(list []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	i := slices.IndexFunc(list, func(c corev1.ContainerStatus) bool { return c.Name == name })
	if i < 0 {
		return corev1.ContainerStatus{}
	}
	return list[i]
}

func containerTales(pod *corev1.Pod, was, is corev1.ContainerStatus) []tale {
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	var tales []tale
	if is.ContainerID != "" && is.ContainerID != was.ContainerID {
		// Of an image its agent tells, and it has a digest then.
		if is.ImageID == is.Image && is.Image != wellknown.ImageHost {
			tales = append(tales, tale{kind: normal, reason: "Pulled",
				message: fmt.Sprintf("Container image %q is not pulled: the program is the HPC node's own", is.Image)})
		}
		if failed := startError(is); failed != nil {
			tales = append(tales, tale{kind: warning, reason: "Failed", message: "Error: " + failed.Message})
		} else {
			where := cmp.Or(pod.Annotations[wellknown.AnnotationHPCNode], "the HPC node")
			tales = append(tales, tale{kind: normal, reason: "Started", message: "Container started on " + where})
		}
	}
	waits := is.State.Waiting
	if waits == nil || was.State.Waiting != nil && was.State.Waiting.Reason == waits.Reason && was.RestartCount == is.RestartCount {
		return tales
	}
	switch {
	case waits.Reason == "CrashLoopBackOff":
		tales = append(tales, tale{kind: warning, reason: "BackOff",
			message: fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", is.Name, pod.Name, pod.Namespace, pod.UID)})
	case strings.HasPrefix(waits.Reason, wellknown.ReasonUnsupported):
		tales = append(tales, tale{kind: warning, reason: waits.Reason, message: waits.Message})
	}
	return tales
}

// startError is the end of the container's last run if that never began.
func startError(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	for _, end := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if end != nil && end.ContainerID == c.ContainerID && end.Reason == "StartError" {
			return end
		}
	}
	return nil
}

func resizeTales(before, after *corev1.Pod) []tale {
	pending := func(pod *corev1.Pod) corev1.PodCondition {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodResizePending {
				return c
			}
		}
		return corev1.PodCondition{}
	}
	was, is := pending(before), pending(after)
	if is.Reason == "" || is.ObservedGeneration == was.ObservedGeneration {
		return nil
	}
	return []tale{{kind: corev1.EventTypeWarning, reason: "ResizeInfeasible", message: "Pod resize is infeasible: " + is.Message}}
}

func endTales(before, after *corev1.Pod) []tale {
	if before.Status.Phase == after.Status.Phase {
		return nil
	}
	switch after.Status.Phase {
	case corev1.PodSucceeded:
		return []tale{{kind: corev1.EventTypeNormal, reason: "Completed", message: "All containers ended with exit code 0"}}
	case corev1.PodFailed:
		if after.DeletionTimestamp != nil {
			return nil // it was stopped on request, and that was told
		}
		kind := corev1.EventTypeWarning
		if after.Status.Reason == wellknown.ReasonDeadline {
			kind = corev1.EventTypeNormal // as kubelet has it
		}
		return []tale{{kind: kind, reason: cmp.Or(after.Status.Reason, "Failed"), message: failureText(after)}}
	}
	return nil
}

// failureText is why a pod failed, in one line.
func failureText(pod *corev1.Pod) string {
	if pod.Status.Message != "" {
		return pod.Status.Message
	}
	for _, c := range allStatuses(pod) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("Container %s %s", c.Name, endText(t))
		}
	}
	return "The pod failed"
}

// allStatuses are a pod's containers, those that run first first.
func allStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

func endText(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("ended with exit code %d (%s)", t.ExitCode, t.Reason)
	if t.Message != "" {
		text += ": " + t.Message
	}
	return text
}

// podReference names a pod, or one of its containers, in an Event.
func podReference(pod *corev1.Pod, path string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: path,
	}
}
