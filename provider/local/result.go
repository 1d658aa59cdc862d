package local

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// The exit codes of a container that was asked to end: 128 + SIGTERM, SIGKILL.
const (
	codeTerminated = 143
	codeKilled     = 137
)

// podsExitCode is the highest exit code of the pods that ran last in a gang's
// slots, as the agents' launcher would find it under another workload manager. A
// container that ended by the very signals that a stop sends has not failed:
// Kubernetes stops the workers of a gang whose launcher has succeeded.
func podsExitCode(dir spool.Dir) (int, error) {
	var gang spool.Gang
	if _, err := spool.Read(dir.Gang(), &gang); err != nil {
		return 0, fmt.Errorf("reading how the pods ended: %w", err)
	}
	highest := 0
	for k := range gang.Slots {
		var status spool.Status
		if _, err := spool.Read(dir.Status(k), &status); err != nil {
			return 0, fmt.Errorf("reading how the pod of slot %d ended: %w", k, err)
		}
		if status.Pod == nil {
			continue
		}
		var desired spool.Desired
		if _, err := spool.Read(dir.Desired(k), &desired); err != nil {
			return 0, fmt.Errorf("reading whether the pod of slot %d was stopped: %w", k, err)
		}
		stopped := gang.Release || desired.PodUID == status.Pod.UID && desired.Action == spool.ActionStop
		highest = max(highest, podExitCode(*status.Pod, stopped))
	}
	return highest, nil
}

// podExitCode is the highest exit code of a pod's containers. Init containers
// count only where nothing came after them: a sidecar among them is ended by a
// signal, which is no failure. A pod that failed as a whole counts as 1.
func podExitCode(p spool.PodStatus, stopped bool) int {
	if p.Reason != "" {
		return 1
	}
	highest, known := highestExitCode(p.Containers, stopped)
	if !known {
		highest, _ = highestExitCode(p.InitContainers, stopped)
	}
	return highest
}

// highestExitCode also tells whether any container has ended.
func highestExitCode(statuses []corev1.ContainerStatus, stopped bool) (highest int, known bool) {
	for _, s := range statuses {
		end := s.State.Terminated
		if end == nil {
			continue
		}
		known = true
		if !stopped || end.ExitCode != codeTerminated && end.ExitCode != codeKilled {
			highest = max(highest, int(end.ExitCode))
		}
	}
	return highest, known
}
