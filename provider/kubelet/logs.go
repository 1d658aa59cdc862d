package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// logs serves a container's log from the spool. (virtual-kubelet's own handler
// cannot tell --tail=0 from no --tail.)
type logs struct {
	pods Pods
}

// ServeHTTP answers as kubelet does (pkg/kubelet/server: getContainerLogs): 400
// or 422 for a question that cannot be read or makes no sense, 404 for a pod or
// container that is not known, 400 for one that has no log. All else is 500, also a site
// that cannot be reached: of a 503 kube-apiserver shows the user no text.
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
	found, err := l.find(r.Context(), pod, container, options.Previous)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := &flusher{Writer: w, control: http.NewResponseController(w)}
	if options.Follow {
		// The caller hears at once that there is a log, although it may be empty.
		if err := out.begin(); err != nil {
			return nil //nolint:nilerr // nobody is there to be told
		}
	}
	err = found.run.Read(r.Context(), readOptions(options, found.ended), out)
	if err != nil && r.Context().Err() == nil {
		log := logr.FromContextOrDiscard(r.Context())
		log.Error(err, "reading a log failed", "pod", name.String(), "container", container)
		if errors.Is(err, site.ErrUnreachable) {
			return fmt.Errorf("reading the log of container %q: %w", container, err)
		}
		return fmt.Errorf("the log of container %q could not be read; gangline-node's own log says why", container)
	}
	return nil
}

// foundLog is the log of one run.
type foundLog struct {
	run   crilog.Run
	ended func(context.Context) bool
}

// find returns the log of the run that is asked for.
func (l *logs) find(ctx context.Context, pod *corev1.Pod, container string, previous bool) (*foundLog, error) {
	place, placed := l.pods.Place(pod.UID)
	status := newestStatus(ctx, pod, place, placed, container)
	if !placed && pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0 {
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q never started: %s: %s",
			container, pod.Name, pod.Status.Reason, pod.Status.Message)}
	}
	var dir logDir
	var runs []int
	if placed {
		var err error
		if dir, runs, err = findLogs(ctx, place, pod.UID, container); err != nil {
			return nil, err
		}
	}
	run, err := chooseRun(pod.Name, status, previous, runs)
	if err == nil && len(runs) == 0 {
		err = &httpError{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q has left no log", container, pod.Name)}
	}
	if err != nil {
		return nil, err
	}
	return &foundLog{
		run:   crilog.Run{Dir: dir, Number: run},
		ended: newRunEnd(place, pod.UID, container, run).reached,
	}, nil
}

// newestStatus is a container's status as its agent reports it, or, where that
// has no more to say, as the API server has it.
func newestStatus(ctx context.Context, pod *corev1.Pod, place Place, placed bool, container string) corev1.ContainerStatus {
	if placed && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		var s spool.Status
		if ok, err := site.ReadJSON(ctx, place.Site, place.Dir.Status(place.Slot), &s); err == nil && ok && s.Pod != nil && s.Pod.UID == string(pod.UID) {
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

// flusher sends on what was written, so that a follower sees it. An answer that has
// not begun can still become an error.
type flusher struct {
	io.Writer
	control *http.ResponseController
	begun   bool
}

func (f *flusher) begin() error {
	f.begun = true
	return f.control.Flush()
}

// Write implements io.Writer.
func (f *flusher) Write(p []byte) (int, error) {
	f.begun = f.begun || len(p) > 0
	return f.Writer.Write(p)
}

// Flush is called by the log's reader when there is no more to read.
func (f *flusher) Flush() error {
	if !f.begun {
		return nil
	}
	return f.control.Flush()
}
