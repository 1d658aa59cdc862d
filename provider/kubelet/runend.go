package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// runEnd tells when a run writes to its log no more. It is asked again and again, and
// reads of the spool only what has changed.
type runEnd struct {
	place     Place
	pod       types.UID
	container string
	run       int

	ended, status newest
}

func newRunEnd(place Place, pod types.UID, container string, run int) *runEnd {
	return &runEnd{
		place: place, pod: pod, container: container, run: run,
		ended:  newest{file: site.Watch(place.Dir.Ended(), &spool.Ended{})},
		status: newest{file: site.Watch(place.Dir.Status(place.Slot), &spool.Status{})},
	}
}

// reached is false as well where it cannot be told.
func (e *runEnd) reached(ctx context.Context) bool {
	files := []*newest{&e.ended, &e.status}
	if err := readNewest(ctx, e.place.Site, files); err != nil {
		return false
	}
	var over spool.Ended
	if ok, err := e.ended.decode(&over); err == nil && ok {
		return true
	}
	var s spool.Status
	ok, err := e.status.decode(&s)
	if err != nil {
		return false
	}
	if !ok || s.Pod == nil || s.Pod.UID != string(e.pod) || s.Pod.Done {
		return true
	}
	status, ok := statusIn(s.Pod, e.container)
	if !ok {
		return false
	}
	return int(status.RestartCount) != e.run || status.State.Terminated != nil || waitsAfterRun(status)
}

// waitsAfterRun tells of a container that its last run has ended, and the next
// has not begun.
func waitsAfterRun(s corev1.ContainerStatus) bool {
	last := s.LastTerminationState.Terminated
	return s.State.Waiting != nil && last != nil && runOf(last.ContainerID) == int(s.RestartCount)
}

// newest is a file of the spool as it was last read.
type newest struct {
	file site.Watched
	data []byte
	err  error
}

// readNewest reads those files that have changed, in one round trip.
func readNewest(ctx context.Context, from site.Files, files []*newest) error {
	watched := make([]site.Watched, len(files))
	for i, f := range files {
		watched[i] = f.file
	}
	changes, err := from.Changed(ctx, watched)
	if err != nil {
		return err
	}
	for _, f := range files {
		f.err = nil // one that still cannot be read is told again
	}
	for _, c := range changes {
		f := files[c.Index]
		f.file.Stamp, f.data, f.err = c.Stamp, c.Data, c.Err
	}
	return nil
}

// decode reports false without an error where there is no file.
func (n *newest) decode(v any) (bool, error) {
	if n.err != nil || n.file.Stamp == (site.Stamp{}) {
		return false, n.err
	}
	return true, spool.Decode(n.file.Path, n.data, v)
}
