package follow

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// A log that has ended, or could not be read, is asked for again after a pause that
	// doubles with each try that brings nothing.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	// mostTries is how often the log of a run that has ended is asked for in vain.
	mostTries = 5
)

// reader follows one container.
type reader struct {
	f    *Follower
	name string
	news chan *corev1.Pod // the pod as it is now, nil when it is no more
	// late tells that all which the container writes is new: nothing of it was there when
	// the Follower began.
	late bool

	cursor cursor
	done   int32  // the last run whose log was read to its end, or is not wanted; -1 for none
	tries  int    // in vain, of late
	rest   string // the line at the end of the last answer, if it had no end
	told   string
}

func newReader(f *Follower, pod *corev1.Pod, name string) *reader {
	run, _ := runOf(pod, name)
	return &reader{
		f: f, name: name, news: make(chan *corev1.Pod, 1),
		late: f.late || run < 0, done: max(run, 0) - 1,
	}
}

// tell leaves the newest of a pod for the reader.
func (r *reader) tell(pod *corev1.Pod) {
	select {
	case <-r.news:
	default:
	}
	r.news <- pod
}

// follow reads the container's runs, one after the other, until the pod has ended. Its
// error is one that ends everything.
func (r *reader) follow(ctx context.Context) error {
	var pod *corev1.Pod
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case pod = <-r.news:
			if pod == nil {
				return nil
			}
		case <-again:
		}
		more, err := r.look(ctx, pod)
		if err != nil {
			return err
		}
		if again = nil; more {
			again = time.After(min(firstPause<<min(r.tries, 10), lastPause))
		} else if over(pod) {
			return nil
		}
	}
}

// over tells that a pod's containers will not run any more.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// look reads what there is to be read of a pod as it is now, and reports whether it is to
// be looked at again although it may not change.
func (r *reader) look(ctx context.Context, pod *corev1.Pod) (more bool, err error) {
	run, ended := runOf(pod, r.name)
	switch {
	case run <= r.done:
		return false, nil
	case run > r.done+1:
		// A run began before the one before it was seen to end: its last lines may be missing.
		return true, r.finish(ctx, pod, run-1, true)
	case ended:
		return true, r.finish(ctx, pod, run, false)
	}
	before := r.cursor
	if err := r.read(ctx, pod, false, true); err != nil {
		return true, r.failed(ctx, pod, err)
	}
	// The run has ended, or the way to it was cut. If it has, the pod says so soon.
	r.count(before)
	return true, nil
}

// count counts tries in vain.
func (r *reader) count(before cursor) {
	if r.tries++; !r.cursor.is(before) {
		r.tries = 0
	}
}

// finish reads a run that has ended, until there is nothing new in it twice: an answer that
// breaks off looks like one that is complete.
func (r *reader) finish(ctx context.Context, pod *corev1.Pod, run int32, previous bool) error {
	before, rest := r.cursor, r.rest
	err := r.read(ctx, pod, previous, false)
	if err != nil && !r.missed(err) {
		return r.failed(ctx, pod, err)
	}
	if err != nil && !previous && r.cursor.at.IsZero() {
		r.trouble(pod, err)
	}
	if r.count(before); err == nil && (r.tries == 0 || r.rest != rest) {
		return nil
	}
	r.done, r.tries, r.late, r.rest = run, 0, true, ""
	if rest == "" {
		return nil
	}
	return r.write(r.f.options.Prefix(pod, r.name), []byte(rest)) // a last line that has no end
}

// missed tells whether an error means that a log is no more, or whether it was asked for in
// vain often enough.
func (r *reader) missed(err error) bool {
	return apierrors.IsNotFound(err) || r.tries >= mostTries
}

// failed returns an error that ends everything. Others are told, and the log is read again.
func (r *reader) failed(ctx context.Context, pod *corev1.Pod, err error) error {
	if ctx.Err() != nil || Fatal(ctx, err) {
		return err
	}
	r.tries++
	if !apierrors.IsBadRequest(err) { // else it is about to start, or to start again
		r.trouble(pod, err)
	}
	return nil
}

// Fatal tells whether an error ends everything: nothing can be written any more, or the
// user may not read logs.
func Fatal(ctx context.Context, err error) bool {
	var write *writeError
	return err != nil && ctx.Err() == nil && (errors.As(err, &write) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err))
}

// trouble tells of an error once.
func (r *reader) trouble(pod *corev1.Pod, err error) {
	if said := err.Error(); said != r.told {
		r.told = said
		r.f.options.Trouble(pod, r.name, err)
	}
}

// Started tells whether a pod can have a log: some container of it has run.
func Started(pod *corev1.Pod) bool {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if run, _ := runOf(pod, c.Name); run >= 0 {
			return true
		}
	}
	return false
}

// runOf is the number of a container's current or last run, from 0, -1 before the first;
// and whether it has ended.
func runOf(pod *corev1.Pod, name string) (run int32, ended bool) {
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
	i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == name })
	if i < 0 {
		return -1, false
	}
	c := all[i]
	if c.State.Running == nil && c.ContainerID == "" && c.LastTerminationState.Terminated == nil {
		return -1, false
	}
	return c.RestartCount, c.State.Running == nil
}

// read writes what is new of the log of the current run, or of the one before it.
func (r *reader) read(ctx context.Context, pod *corev1.Pod, previous, follow bool) error {
	o := r.f.request(r.name)
	o.Follow, o.Previous, o.Timestamps = follow, previous, true
	if !r.cursor.at.IsZero() {
		o.SinceTime, o.TailLines = &metav1.Time{Time: r.cursor.at}, nil
	} else if r.late {
		o.TailLines = nil
	}
	r.cursor.rewind()
	r.rest = ""
	prefix, skip := r.f.options.Prefix(pod, r.name), false
	return r.f.copy(ctx, pod, o, func(p piece) error {
		switch {
		case !p.whole && p.begins:
			r.rest = string(p.text) // there may be more of it
			return nil
		case p.begins:
			skip = r.written(p.text)
		}
		if skip {
			return nil
		}
		if !p.begins {
			return r.f.lines.write(prefix, p.text)
		}
		return r.write(prefix, p.text)
	})
}

// written tells whether a line was written already, and counts it as such.
func (r *reader) written(line []byte) bool {
	at, _, stamped := stamp(line)
	return stamped && !r.cursor.next(at)
}

// write writes a line with its time, or without if that is not wanted.
func (r *reader) write(prefix string, line []byte) error {
	if _, text, stamped := stamp(line); stamped && !r.f.options.Timestamps {
		line = text
	}
	return r.f.lines.write(prefix, line)
}
