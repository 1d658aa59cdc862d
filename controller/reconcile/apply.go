package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// applier writes components by server-side apply, and leaves out a write that
// would change nothing: it remembers what it has applied last, and asks again
// only if that, or the object itself, has changed since. The memory is a saving
// and no more: without it everything is applied once again.
type applier struct {
	client client.Client

	mu   sync.Mutex
	last map[types.NamespacedName]map[string]applied // by TrainJob, then by kind and name
}

// applied is what was applied, and the object as it was then.
type applied struct {
	content  [sha256.Size]byte
	uid      types.UID
	revision string
}

func newApplier(c client.Client) *applier {
	return &applier{client: c, last: map[types.NamespacedName]map[string]applied{}}
}

// create makes an object that is never changed. One that exists already is as
// good.
func (a *applier) create(ctx context.Context, object client.Object) error {
	err := a.client.Create(ctx, object, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// apply makes an object of the TrainJob's what it should be. Existing is its
// metadata now, nil if it is absent.
func (a *applier) apply(ctx context.Context, trainJob types.NamespacedName, object client.Object, existing metav1.Object) error {
	wanted, err := a.unstructured(object)
	if err != nil {
		return err
	}
	text, err := wanted.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	name := wanted.GroupVersionKind().GroupKind().String() + "/" + wanted.GetName()
	now := applied{content: sha256.Sum256(text)}
	if existing != nil {
		now.uid, now.revision = existing.GetUID(), revision(existing)
		if a.recall(trainJob, name) == now {
			return nil
		}
	}
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted),
		client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership)
	if err != nil {
		return err
	}
	now.uid, now.revision = wanted.GetUID(), revision(wanted)
	a.remember(trainJob, name, now)
	return nil
}

func (a *applier) recall(trainJob types.NamespacedName, name string) applied {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[trainJob][name]
}

func (a *applier) remember(trainJob types.NamespacedName, name string, now applied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last[trainJob] == nil {
		a.last[trainJob] = map[string]applied{}
	}
	a.last[trainJob][name] = now
}

func (a *applier) forget(trainJob types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, trainJob)
}

// revision changes with what an object asks for: its generation or, where it has
// none, its resource version.
func revision(object metav1.Object) string {
	if g := object.GetGeneration(); g != 0 {
		return strconv.FormatInt(g, 10)
	}
	return object.GetResourceVersion()
}

// unstructured is the object as it is applied: with its kind, without a status.
func (a *applier) unstructured(object client.Object) (*unstructured.Unstructured, error) {
	kind, err := a.client.GroupVersionKindFor(object)
	if err != nil {
		return nil, fmt.Errorf("finding the kind: %w", err)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &u.Object); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	u.SetGroupVersionKind(kind)
	delete(u.Object, "status")
	return u, nil
}
