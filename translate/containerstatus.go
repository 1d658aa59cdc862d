package translate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

// maxPodMessages bounds the termination messages of a pod's containers in all, in
// bytes, as kubelet does.
const maxPodMessages = 12 << 10

// containerStatuses gives each container of the spec a status: the agent's
// where there is one, what the API server has where the agent fell silent, and
// otherwise the reason for waiting.
func containerStatuses(o Observation, specs []corev1.Container, before, observed []corev1.ContainerStatus) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, 0, len(specs))
	for _, c := range specs {
		old, known := find(before, c.Name)
		s, seen := find(observed, c.Name)
		if !seen && known && old.State.Waiting == nil {
			s, seen = old, true
		}
		if !seen {
			s = corev1.ContainerStatus{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: containerWaiting(o), Message: o.Waiting.Message},
			}}
		}
		s.Name = c.Name
		s.Image = c.Image
		if old.ContainerID != "" {
			s.Image = old.Image // the orders of a pod that has started stay as they are
		}
		if s.ImageID == "" && s.ContainerID != "" {
			s.ImageID = "host" // the image is a label: the program is the HPC node's own
		}
		s.Started = ptr.To(ptr.Deref(s.Started, false))
		s.Resources, s.AllocatedResources = given(c, old)
		s.VolumeMounts = mountStatuses(c)
		if c.Lifecycle != nil {
			s.StopSignal = c.Lifecycle.StopSignal
		}
		for _, end := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			boundMessage(end, maxPodMessages/containerCount(o.Pod))
		}
		statuses = append(statuses, s)
	}
	return statuses
}

func containerCount(pod *corev1.Pod) int {
	return max(1, len(pod.Spec.InitContainers)+len(pod.Spec.Containers)+len(pod.Spec.EphemeralContainers))
}

// boundMessage cuts what an agent may have left too long. The spool is not trusted.
func boundMessage(end *corev1.ContainerStateTerminated, limit int) {
	if end != nil {
		end.Message = bounded(end.Message, limit)
	}
}

// given is what the container was given: what its spec asked for when the pod was
// accepted. A later resize does not change it.
func given(c corev1.Container, before corev1.ContainerStatus) (*corev1.ResourceRequirements, corev1.ResourceList) {
	if before.Resources != nil {
		return before.Resources, before.AllocatedResources
	}
	return c.Resources.DeepCopy(), c.Resources.Requests.DeepCopy()
}

// mountStatuses are the container's mounts. What is mounted below a read-only one is
// read-only too where the pod asks for that, as its orders do.
func mountStatuses(c corev1.Container) []corev1.VolumeMountStatus {
	var mounts []corev1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			s.RecursiveReadOnly = ptr.To(corev1.RecursiveReadOnlyDisabled)
			if ptr.Deref(m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled) != corev1.RecursiveReadOnlyDisabled {
				s.RecursiveReadOnly = ptr.To(corev1.RecursiveReadOnlyEnabled)
			}
		}
		mounts = append(mounts, s)
	}
	return mounts
}

func containerWaiting(o Observation) string {
	if o.Waiting.Reason == "" {
		return wellknown.ReasonContainerCreating
	}
	return o.Waiting.Reason
}

// end ends the containers of a pod that can run no more, as kubelet does
// (status_manager.go: TerminatePod): those that never had their turn go on waiting.
func end(pod *corev1.Pod, s *corev1.PodStatus, e Ending, now time.Time) {
	inits := s.InitContainerStatuses
	last := 0
	for i, c := range inits {
		if everStarted(c) {
			last = i
		}
	}
	mains := podInitialized(pod, *s)
	for i := range inits[:min(last+1, len(inits))] {
		endContainer(&inits[i], e, now)
	}
	if !mains {
		return
	}
	for i := range s.ContainerStatuses {
		endContainer(&s.ContainerStatuses[i], e, now)
	}
}

// podInitialized tells that the main containers had their turn.
func podInitialized(pod *corev1.Pod, s corev1.PodStatus) bool {
	if len(pod.Spec.InitContainers) == 0 || slices.ContainsFunc(s.ContainerStatuses, everStarted) {
		return true
	}
	n := len(s.InitContainerStatuses) - 1
	last := s.InitContainerStatuses[n]
	if sidecar(pod.Spec.InitContainers[n]) {
		return last.State.Running != nil && ptr.Deref(last.Started, false)
	}
	return last.State.Terminated != nil && last.State.Terminated.ExitCode == 0
}

// everStarted tells that a container runs or has run.
func everStarted(s corev1.ContainerStatus) bool {
	return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil
}

func endContainer(s *corev1.ContainerStatus, e Ending, now time.Time) {
	if s.State.Terminated != nil {
		return
	}
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
}

func find(statuses []corev1.ContainerStatus, name string) (corev1.ContainerStatus, bool) {
	for _, s := range statuses {
		if s.Name == name {
			return *s.DeepCopy(), true
		}
	}
	return corev1.ContainerStatus{}, false
}
