package kubelet

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/provider/spool"
)

// logs serves a container's log from the spool. (virtual-kubelet's own handler
// cannot tell --tail=0 from no --tail.)
type logs struct {
	pods Pods
}

// ServeHTTP answers as kubelet does (pkg/kubelet/server: getContainerLogs): 400
// or 422 for a question that cannot be read or makes no sense, 404 for a pod or
// container that is not known, 400 for one that has no log.
func (l *logs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := l.serve(w, r); err != nil {
		var failure *httpError
		if !errors.As(err, &failure) {
			failure = &httpError{http.StatusInternalServerError, err.Error()}
		}
		http.Error(w, failure.message, failure.code)
	}
}

type httpError struct {
	code    int
	message string
}

func (e *httpError) Error() string { return e.message }

func (l *logs) serve(w http.ResponseWriter, r *http.Request) error {
	options, err := logOptions(r.URL.Query())
	if err != nil {
		return &httpError{http.StatusBadRequest, fmt.Sprintf("reading the log's options: %v", err)}
	}
	if err := validateLogOptions(options); err != nil {
		return &httpError{http.StatusUnprocessableEntity, err.Error()}
	}
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	pod, err := l.pods.Pod(r.Context(), name)
	if apierrors.IsNotFound(err) {
		return &httpError{http.StatusNotFound, fmt.Sprintf("pod %q does not exist", name.Name)}
	}
	if err != nil {
		return err
	}
	container := r.PathValue("container")
	if !hasContainer(pod, container) {
		return &httpError{http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", container, pod.Name)}
	}
	found, err := l.find(pod, container, options.Previous)
	if err != nil {
		return err
	}
	defer found.close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := &flusher{Writer: w, control: http.NewResponseController(w)}
	if options.Follow {
		// The caller hears at once that there is a log, although it may be empty.
		if err := out.Flush(); err != nil {
			return nil //nolint:nilerr // nobody is there to be told
		}
	}
	err = found.run.Read(r.Context(), readOptions(options, found.ended), out)
	if err != nil && r.Context().Err() == nil {
		log := logr.FromContextOrDiscard(r.Context())
		log.Error(err, "reading a log failed", "pod", name.String(), "container", container)
		return fmt.Errorf("the log of container %q could not be read; gangline-node's own log says why", container)
	}
	return nil
}

// foundLog is the log of one run.
type foundLog struct {
	run   crilog.Run
	ended func() bool
}

func (f *foundLog) close() { _ = f.run.Dir.Close() }

// find returns the log of the run that is asked for.
func (l *logs) find(pod *corev1.Pod, container string, previous bool) (*foundLog, error) {
	place, placed := l.pods.Place(pod.UID)
	status := newestStatus(pod, place, placed, container)
	if !placed && pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0 {
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q never started: %s: %s",
			container, pod.Name, pod.Status.Reason, pod.Status.Message)}
	}
	var dir logDir
	if placed {
		var err error
		if dir, err = openLogDir(place, pod.UID, container); err != nil {
			return nil, err
		}
	}
	run, err := chooseRun(pod.Name, status, previous, dir.runs)
	if err == nil && dir.root == nil {
		err = &httpError{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q has left no log", container, pod.Name)}
	}
	if err != nil {
		dir.close()
		return nil, err
	}
	return &foundLog{
		run:   crilog.Run{Dir: dir.root, Number: run},
		ended: func() bool { return runEnded(place, pod.UID, container, run) },
	}, nil
}

// newestStatus is a container's status as its agent reports it, or, where that
// has no more to say, as the API server has it.
func newestStatus(pod *corev1.Pod, place Place, placed bool, container string) corev1.ContainerStatus {
	if placed && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		var s spool.Status
		if ok, err := spool.Read(place.Dir.Status(place.Slot), &s); err == nil && ok && s.Pod != nil && s.Pod.UID == string(pod.UID) {
			if status, ok := statusIn(s.Pod, container); ok {
				return status
			}
		}
	}
	if status, ok := statusOf(pod, container); ok {
		return status
	}
	return corev1.ContainerStatus{Name: container}
}

// runEnded tells whether a run writes to its log no more.
func runEnded(place Place, pod types.UID, container string, run int) bool {
	var ended spool.Ended
	if ok, err := spool.Read(place.Dir.Ended(), &ended); err == nil && ok {
		return true
	}
	var s spool.Status
	ok, err := spool.Read(place.Dir.Status(place.Slot), &s)
	if err != nil {
		return false // not known to have ended
	}
	if !ok || s.Pod == nil || s.Pod.UID != string(pod) || s.Pod.Done {
		return true
	}
	status, ok := statusIn(s.Pod, container)
	if !ok {
		return false
	}
	return int(status.RestartCount) != run || status.State.Terminated != nil || waitsAfterRun(status)
}

// waitsAfterRun tells of a container that its last run has ended, and the next
// has not begun.
func waitsAfterRun(s corev1.ContainerStatus) bool {
	last := s.LastTerminationState.Terminated
	return s.State.Waiting != nil && last != nil && runOf(last.ContainerID) == int(s.RestartCount)
}

// flusher sends on what was written, so that a follower sees it.
type flusher struct {
	io.Writer
	control *http.ResponseController
}

// Flush is called by the log's reader when there is no more to read.
func (f *flusher) Flush() error { return f.control.Flush() }
