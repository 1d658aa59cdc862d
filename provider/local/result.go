package local

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// podsExitCode is the highest exit code of the pods that ran last in a gang's
// slots.
func podsExitCode(dir spool.Dir) (int, error) {
	var gang spool.Gang
	if _, err := spool.Read(dir.Gang(), &gang); err != nil {
		return 0, err
	}
	highest := 0
	for k := range gang.Slots {
		var status spool.Status
		if _, err := spool.Read(dir.Status(k), &status); err != nil {
			return 0, err
		}
		if status.Pod != nil {
			highest = max(highest, podExitCode(*status.Pod))
		}
	}
	return highest, nil
}

// podExitCode is the highest exit code of a pod's containers. Init containers
// count only where nothing came after them: a sidecar among them is ended by a
// signal, which is no failure. A pod that failed as a whole counts as 1.
func podExitCode(p spool.PodStatus) int {
	highest, known := highestExitCode(p.Containers)
	if !known {
		highest, known = highestExitCode(p.InitContainers)
	}
	if !known && p.Reason != "" {
		return 1
	}
	return highest
}

func highestExitCode(statuses []corev1.ContainerStatus) (highest int, known bool) {
	for _, s := range statuses {
		if end := s.State.Terminated; end != nil {
			highest, known = max(highest, int(end.ExitCode)), true
		}
	}
	return highest, known
}
