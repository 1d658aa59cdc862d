package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crilogs "k8s.io/cri-client/pkg/logs"

	"github.com/gangline/gangline/provider/spool"
)

// logs serves a container's log from the spool. (virtual-kubelet's own handler
// cannot tell --tail=0 from no --tail.)
type logs struct {
	pods Pods
}

// ServeHTTP answers as kubelet does (pkg/kubelet/server: getContainerLogs): 404
// for a pod or container that is not known, 400 for one that has no log yet.
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
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	pod, err := l.pods.Pod(r.Context(), name)
	if apierrors.IsNotFound(err) {
		return &httpError{http.StatusNotFound, fmt.Sprintf("pod %q does not exist", name)}
	}
	if err != nil {
		return err
	}
	container := r.PathValue("container")
	status, ok := containerStatus(pod, container)
	if !ok {
		return &httpError{http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", container, pod.Name)}
	}
	path, err := l.find(pod, container, options.Previous, status)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := &flusher{ResponseWriter: w, control: http.NewResponseController(w)}
	read := &crilogs.LogOptions{
		TailLines: options.TailLines, LimitBytes: options.LimitBytes,
		Since: since(options), Follow: options.Follow && !options.Previous, Timestamp: options.Timestamps,
	}
	if err := path.check(); err != nil {
		return err
	}
	err = crilogs.ReadLogs(r.Context(), path.file, path.file, read, path, out, out)
	if err != nil && r.Context().Err() == nil {
		// Its words may quote the file, which may not be what it seems.
		logr.FromContextOrDiscard(r.Context()).Error(err, "reading a log failed", "pod", name.String(), "container", container)
		return &httpError{http.StatusInternalServerError, fmt.Sprintf("the log of container %q could not be read; gangline-node's own log says why", container)}
	}
	return nil
}

// logOptions reads what kube-apiserver asks for (corev1.PodLogOptions as a
// query).
func logOptions(query url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	var errs []error
	flag := func(name string, to *bool) {
		if value := query.Get(name); value != "" {
			parsed, err := strconv.ParseBool(value)
			*to = parsed
			errs = append(errs, err)
		}
	}
	number := func(name string, to **int64) {
		if value := query.Get(name); value != "" {
			parsed, err := strconv.ParseInt(value, 10, 64)
			if err == nil && parsed < 0 {
				err = fmt.Errorf("%s must not be negative", name)
			}
			*to = &parsed
			errs = append(errs, err)
		}
	}
	flag("follow", &o.Follow)
	flag("previous", &o.Previous)
	flag("timestamps", &o.Timestamps)
	number("tailLines", &o.TailLines)
	number("limitBytes", &o.LimitBytes)
	number("sinceSeconds", &o.SinceSeconds)
	if value := query.Get("sinceTime"); value != "" {
		parsed, err := time.Parse(time.RFC3339, value)
		o.SinceTime = &metav1.Time{Time: parsed}
		errs = append(errs, err)
	}
	return o, errors.Join(errs...)
}

func since(o *corev1.PodLogOptions) time.Time {
	if o.SinceTime != nil {
		return o.SinceTime.Time
	}
	if o.SinceSeconds != nil {
		return metav1.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	return time.Time{}
}

func containerStatus(pod *corev1.Pod, container string) (corev1.ContainerStatus, bool) {
	named := func(c corev1.Container) bool { return c.Name == container }
	if !slices.ContainsFunc(pod.Spec.Containers, named) && !slices.ContainsFunc(pod.Spec.InitContainers, named) {
		return corev1.ContainerStatus{}, false
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, s := range list {
			if s.Name == container {
				return s, true
			}
		}
	}
	return corev1.ContainerStatus{Name: container}, true
}

// find returns the log file of a container's newest run, or of the one before.
func (l *logs) find(pod *corev1.Pod, container string, previous bool, status corev1.ContainerStatus) (*logFile, error) {
	var runs []int
	place, ok := l.pods.Place(pod.UID)
	if ok {
		var err error
		if runs, err = logRuns(place, pod.UID, container); err != nil {
			return nil, err
		}
	}
	if previous {
		if len(runs) < 2 {
			return nil, &httpError{http.StatusBadRequest,
				fmt.Sprintf("previous terminated container %q in pod %q not found", container, pod.Name)}
		}
		runs = runs[:len(runs)-1]
	}
	if len(runs) == 0 {
		return nil, &httpError{http.StatusBadRequest, notStarted(pod, container, status)}
	}
	restart := runs[len(runs)-1]
	return &logFile{
		place: place, pod: pod.UID, container: container, restart: restart,
		file: place.Dir.Log(place.Slot, string(pod.UID), container, restart),
	}, nil
}

func notStarted(pod *corev1.Pod, container string, s corev1.ContainerStatus) string {
	reason := "ContainerCreating"
	if w := s.State.Waiting; w != nil {
		reason = w.Reason
		if w.Message != "" {
			reason += ": " + w.Message
		}
	} else if pod.Status.Message != "" {
		reason = pod.Status.Message
	}
	return fmt.Sprintf("container %q in pod %q is waiting to start: %s", container, pod.Name, reason)
}

func logRuns(place Place, pod types.UID, container string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(place.Dir.PodLogs(place.Slot, string(pod)), container))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for logs: %w", err)
	}
	var runs []int
	for _, e := range entries {
		if n, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".log")); err == nil {
			runs = append(runs, n)
		}
	}
	slices.Sort(runs)
	return runs, nil
}

// logFile is one run's log. To the reader it poses as the container runtime,
// of which it asks only whether the container still runs.
type logFile struct {
	criapi.RuntimeService
	place     Place
	pod       types.UID
	container string
	restart   int
	file      string
}

// check makes sure that the log is a plain file of the allocation's directory.
// The pod's own user owns that directory: a link in the log's place would show
// him what this process can read.
func (f *logFile) check() error {
	root, err := os.OpenRoot(string(f.place.Dir))
	if err != nil {
		return fmt.Errorf("opening the spool: %w", err)
	}
	defer root.Close() //nolint:errcheck // only looked at
	inside, err := filepath.Rel(string(f.place.Dir), f.file)
	if err != nil {
		return fmt.Errorf("finding the log: %w", err)
	}
	at := ""
	for part := range strings.SplitSeq(inside, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := root.Lstat(at)
		if err != nil {
			return fmt.Errorf("finding the log: %w", err)
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return &httpError{http.StatusInternalServerError, "the log is not a plain file"}
		}
	}
	return nil
}

// ContainerStatus tells whether this run still writes to its log.
func (f *logFile) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	state := runtimeapi.ContainerState_CONTAINER_EXITED
	if f.running() {
		state = runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: state}}, nil
}

func (f *logFile) running() bool {
	var ended spool.Ended
	if ok, err := spool.Read(f.place.Dir.Ended(), &ended); err == nil && ok {
		return false
	}
	var status spool.Status
	ok, err := spool.Read(f.place.Dir.Status(f.place.Slot), &status)
	if err != nil {
		return true // not known to have ended
	}
	if !ok || status.Pod == nil || status.Pod.UID != string(f.pod) {
		return false
	}
	for _, list := range [][]corev1.ContainerStatus{status.Pod.Containers, status.Pod.InitContainers} {
		for _, c := range list {
			if c.Name == f.container {
				return c.State.Running != nil && int(c.RestartCount) == f.restart
			}
		}
	}
	return false
}

// flusher sends each piece on at once, so that a follower sees it.
type flusher struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (f *flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err != nil {
		return n, err
	}
	return n, f.control.Flush()
}
