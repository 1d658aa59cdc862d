package provider

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/gangline/gangline/translate"
)

// watcher is the controller that owners' events go to.
type watcher interface {
	Watch(source.TypedSource[Request]) error
}

// ownerWatches watches the kinds of owners that need not be installed, each from
// the first pod on that has one: no cluster lists what nobody uses, and a kind
// that is installed later needs no restart.
type ownerWatches struct {
	cache  cache.Cache
	mapper meta.RESTMapper

	mu       sync.Mutex
	watcher  watcher // nil before the controller is made
	handler  handler.TypedEventHandler[*unstructured.Unstructured, Request]
	watching map[schema.GroupVersionKind]bool
}

func newOwnerWatches(c cache.Cache, m meta.RESTMapper) *ownerWatches {
	return &ownerWatches{cache: c, mapper: m, watching: map[schema.GroupVersionKind]bool{}}
}

// ensure begins to watch a kind, unless it is watched or not installed.
func (w *ownerWatches) ensure(kind schema.GroupVersionKind) (installed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watching[kind] {
		return true, nil
	}
	_, err = w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s is installed: %w", kind.GroupKind(), err)
	}
	if err := w.watcher.Watch(source.TypedKind(w.cache, objectOf(kind), w.handler)); err != nil {
		return false, fmt.Errorf("watching %s: %w", kind.GroupKind(), err)
	}
	w.watching[kind] = true
	return true, nil
}

// ownerEvents has the gangs looked at that an owner has, and those that wait for
// one of its name.
func (r *Reconciler) ownerEvents() handler.TypedEventHandler[*unstructured.Unstructured, Request] {
	see := func(u *unstructured.Unstructured, q queue) {
		name := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
		for _, key := range r.keysOf(u) {
			q.Add(Request{Gang: key})
		}
		for _, key := range r.owners.keys(absentKey(u.GroupVersionKind(), name)) {
			q.Add(Request{Gang: key})
		}
	}
	return handler.TypedFuncs[*unstructured.Unstructured, Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*unstructured.Unstructured], q queue) {
			see(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*unstructured.Unstructured], q queue) {
			see(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*unstructured.Unstructured], q queue) {
			see(e.Object, q)
		},
	}
}

// keysOf are the gangs of an owner that have pods or an allocation.
func (r *Reconciler) keysOf(owner client.Object) []string {
	uid := owner.GetUID()
	prefixes := []string{translate.MPIJobKey(uid), translate.LWSKeyPrefix(uid)}
	for _, kind := range translate.PodGroupKinds() {
		prefixes = append(prefixes, kind.Key(uid))
	}
	var keys []string
	for _, prefix := range prefixes {
		keys = append(keys, r.owners.keys(prefix)...)
		keys = append(keys, r.registry.keys(prefix)...)
	}
	return keys
}
