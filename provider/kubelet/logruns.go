package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// chooseRun tells which run's log is asked for, as kubelet does
// (validateContainerLogStatus): that of the current run, or of the last that ended
// where the next has not begun; previous is the one that ended before the current
// one. runs are those that have left a log.
func chooseRun(pod string, s corev1.ContainerStatus, previous bool, runs []int) (int, error) {
	last := s.LastTerminationState.Terminated
	switch {
	case previous && (last == nil || last.ContainerID == ""):
		return 0, &httpError{http.StatusBadRequest, fmt.Sprintf("previous terminated container %q in pod %q not found", s.Name, pod)}
	case previous:
		return runOf(last.ContainerID), nil
	case s.State.Running != nil:
		return int(s.RestartCount), nil
	case s.State.Terminated != nil && s.State.Terminated.ContainerID != "":
		return runOf(s.State.Terminated.ContainerID), nil
	case last != nil && last.ContainerID != "":
		return runOf(last.ContainerID), nil
	case len(runs) > 0: // it ran, and nobody was left to tell how it ended
		return runs[len(runs)-1], nil
	case s.State.Terminated != nil:
		return 0, &httpError{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q is terminated", s.Name, pod)}
	}
	return 0, &httpError{http.StatusBadRequest, notStarted(pod, s)}
}

// runOf is the run that a container's id names: its last part (see
// agent/lifecycle.RunID).
func runOf(containerID string) int {
	run, err := strconv.Atoi(containerID[strings.LastIndexByte(containerID, '-')+1:])
	if err != nil {
		return 0
	}
	return run
}

func hasContainer(pod *corev1.Pod, name string) bool {
	named := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(pod.Spec.Containers, named) || slices.ContainsFunc(pod.Spec.InitContainers, named) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// statusOf is a container's status as the API server has it.
func statusOf(pod *corev1.Pod, container string) (corev1.ContainerStatus, bool) {
	return statusNamed(container, pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses)
}

// statusIn is a container's status as the pod's agent reports it.
func statusIn(pod *spool.PodStatus, container string) (corev1.ContainerStatus, bool) {
	return statusNamed(container, pod.Containers, pod.InitContainers, pod.EphemeralContainers)
}

func statusNamed(name string, lists ...[]corev1.ContainerStatus) (corev1.ContainerStatus, bool) {
	for _, list := range lists {
		for _, s := range list {
			if s.Name == name {
				return s, true
			}
		}
	}
	return corev1.ContainerStatus{}, false
}

// logDir is the directory of a container's logs. The pod's own user owns the
// allocation's directory: a link out of it, in the log's place, would show him what
// this process can read.
type logDir struct{ site.Dir }

var _ crilog.Dir = logDir{}

// Open implements crilog.Dir. The file ends where it ended at the opening: who has
// read so far need not ask the site for more.
func (d logDir) Open(ctx context.Context, name string) (crilog.File, error) {
	f, err := d.Dir.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return logFile{io.NewSectionReader(f, 0, f.Size()), f}, nil
}

type logFile struct {
	*io.SectionReader
	io.Closer
}

// findLogs finds a container's log directory, and the runs that have left a log there.
func findLogs(ctx context.Context, place Place, pod types.UID, container string) (logDir, []int, error) {
	inside, err := filepath.Rel(string(place.Dir), filepath.Join(place.Dir.PodLogs(place.Slot, string(pod)), container))
	if err != nil {
		return logDir{}, nil, fmt.Errorf("finding the log: %w", err)
	}
	dir := logDir{site.Dir{Files: place.Site, Root: string(place.Dir), Path: inside}}
	runs, err := crilog.Runs(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return dir, runs, err
}
