package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writes changes pods in the API server, and remembers what it wrote until the
// cache has caught up: a decision made on the pod as it was before would
// repeat the write and its event.
type writes struct {
	client client.Client

	mu     sync.Mutex
	recent map[types.UID]*corev1.Pod // as the API server returned them
}

func newWrites(c client.Client) *writes {
	return &writes{client: c, recent: map[types.UID]*corev1.Pod{}}
}

// newest returns the pod as last written, where the cache has an older one, and
// otherwise the cached one. (Resource versions of one resource can be compared:
// Kubernetes' API conventions, since 1.35.)
func (w *writes) newest(cached *corev1.Pod) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	recent, ok := w.recent[cached.UID]
	if !ok {
		return cached
	}
	if !older(cached.ResourceVersion, recent.ResourceVersion) {
		delete(w.recent, cached.UID)
		return cached
	}
	return recent.DeepCopy()
}

func (w *writes) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.recent, uid)
}

// patch sends the difference between two versions of a pod: its status, labels,
// annotations and finalizers in one write (the pods/status endpoint takes them
// all). It writes nothing where nothing differs, and only to the pod of the
// same UID. It returns the pod as it is now.
func (w *writes) patch(ctx context.Context, before, after *corev1.Pod) (*corev1.Pod, error) {
	data, err := podPatch(before, after)
	if err != nil || data == nil {
		return before, err
	}
	return w.send(ctx, before, data)
}

func (w *writes) send(ctx context.Context, before *corev1.Pod, data []byte) (*corev1.Pod, error) {
	result := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name}}
	if err := w.client.Status().Patch(ctx, result, client.RawPatch(types.StrategicMergePatchType, data)); err != nil {
		return before, fmt.Errorf("writing the status of pod %s/%s: %w", before.Namespace, before.Name, err)
	}
	result.ManagedFields = nil // as in the cache
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recent[before.UID] = result.DeepCopy()
	return result, nil
}

// podChange is a pod as it is and as it is to be; written is how it is after the write.
type (
	podChange struct{ before, after *corev1.Pod }
	written   struct {
		pod *corev1.Pod
		err error
	}
)

// writesAtOnce is how many pods of one gang are written side by side: one after the other
// a gang of hundreds would start as long as it takes to write it.
const writesAtOnce = 8

// patchAll is patch for many pods.
func (w *writes) patchAll(ctx context.Context, changes []podChange) []written {
	results := make([]written, len(changes))
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for i, c := range changes {
		data, err := podPatch(c.before, c.after)
		if err != nil || data == nil {
			results[i] = written{c.before, err}
			continue
		}
		group.Go(func() error {
			results[i].pod, results[i].err = w.send(ctx, c.before, data)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	return results
}

// older compares two resource versions. What is no number is never older: then
// the cache counts.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// differs tells whether there is anything to write to make a pod another.
func differs(before, after *corev1.Pod) bool {
	return !maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Finalizers, after.Finalizers) ||
		!maps.Equal(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Status, after.Status)
}

// podPatch is the strategic merge patch from one version to the other, bound to
// the pod's UID; nil where nothing differs.
func podPatch(before, after *corev1.Pod) ([]byte, error) {
	if !differs(before, after) {
		return nil, nil // as in nearly every look, without the cost of the text
	}
	sameLabels, sameFinalizers := maps.Equal(before.Labels, after.Labels), slices.Equal(before.Finalizers, after.Finalizers)
	pick := func(p *corev1.Pod) ([]byte, error) {
		picked := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: p.Annotations}, Status: p.Status}
		if !sameLabels {
			picked.Labels = p.Labels
		}
		if !sameFinalizers {
			picked.Finalizers = p.Finalizers
		}
		return json.Marshal(picked)
	}
	was, err := pick(before)
	if err != nil {
		return nil, fmt.Errorf("encoding pod %s/%s: %w", before.Namespace, before.Name, err)
	}
	is, err := pick(after)
	if err != nil {
		return nil, fmt.Errorf("encoding pod %s/%s: %w", before.Namespace, before.Name, err)
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(was, is, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("comparing pod %s/%s: %w", before.Namespace, before.Name, err)
	}
	if string(data) == "{}" {
		return nil, nil
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, fmt.Errorf("comparing pod %s/%s: %w", before.Namespace, before.Name, err)
	}
	meta, _ := patch["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["uid"] = before.UID
	patch["metadata"] = meta
	return json.Marshal(patch)
}

// remove deletes a pod's object at once, as kubelet does when nothing of the
// pod is left.
func (w *writes) remove(ctx context.Context, pod *corev1.Pod) error {
	err := w.client.Delete(ctx, pod, &client.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if err := ignoreGone(err); err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
