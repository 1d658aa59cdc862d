package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/provider/site"
)

// logOptions reads what kube-apiserver asks for: corev1.PodLogOptions as a query.
func logOptions(query url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	var errs []error
	flag := func(name string, to *bool) {
		// As Kubernetes' own decoder has it: a name without a value is true.
		if values, ok := query[name]; ok {
			*to = !strings.EqualFold(values[0], "false") && values[0] != "0"
		}
	}
	number := func(name string, to **int64) {
		if value := query.Get(name); value != "" {
			parsed, err := strconv.ParseInt(value, 10, 64)
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
	if value := query.Get("stream"); value != "" {
		o.Stream = &value
	}
	return o, errors.Join(errs...)
}

// streams of a log, as PodLogOptions.Stream calls them, and as the log does.
func logStreams() map[string]string {
	return map[string]string{
		corev1.LogStreamAll: "", corev1.LogStreamStdout: crilog.Stdout, corev1.LogStreamStderr: crilog.Stderr,
	}
}

// validateLogOptions follows ValidatePodLogOptions of Kubernetes' core validation.
func validateLogOptions(o *corev1.PodLogOptions) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(o.TailLines != nil && *o.TailLines < 0, "tailLines: must be greater than or equal to 0")
	refuse(o.LimitBytes != nil && *o.LimitBytes < 1, "limitBytes: must be greater than 0")
	refuse(o.SinceSeconds != nil && o.SinceTime != nil, "at most one of `sinceTime` or `sinceSeconds` may be specified")
	refuse(o.SinceSeconds != nil && *o.SinceSeconds < 1, "sinceSeconds: must be greater than 0")
	if o.Stream != nil {
		_, known := logStreams()[*o.Stream]
		refuse(!known, "stream: %q is not supported, only %q, %q and %q are", *o.Stream, corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr)
		refuse(*o.Stream != corev1.LogStreamAll && o.TailLines != nil, "`tailLines` and specific `stream` are mutually exclusive")
	}
	return errors.Join(errs...)
}

// readOptions are what the log's reader is asked for.
func readOptions(o *corev1.PodLogOptions, ended func(context.Context) bool) crilog.Options {
	read := crilog.Options{
		TailLines: o.TailLines, LimitBytes: o.LimitBytes, Since: since(o), Timestamps: o.Timestamps,
		Passing: func(err error) bool { return errors.Is(err, site.ErrUnreachable) },
	}
	if o.Stream != nil {
		read.Stream = logStreams()[*o.Stream]
	}
	if o.Follow && !o.Previous {
		read.Ended = ended
	}
	return read
}

func since(o *corev1.PodLogOptions) time.Time {
	if o.SinceTime != nil {
		return o.SinceTime.Time
	}
	if o.SinceSeconds != nil {
		const longest = 100 * 365 * 24 * 60 * 60 // beyond some 290 years it would be a time to come
		return time.Now().Add(-time.Duration(min(*o.SinceSeconds, longest)) * time.Second)
	}
	return time.Time{}
}

// notStarted is why a container has no log yet, in kubelet's words.
func notStarted(pod string, s corev1.ContainerStatus) string {
	reason := "ContainerCreating"
	if w := s.State.Waiting; w != nil {
		reason = cmp.Or(w.Reason, reason)
		if w.Message != "" {
			reason += ": " + w.Message
		}
	}
	return fmt.Sprintf("container %q in pod %q is waiting to start: %s", s.Name, pod, reason)
}
