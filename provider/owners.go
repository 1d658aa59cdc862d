package provider

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/translate"
)

// membership is a pod's place: its gang and its role in it.
type membership struct {
	key  string
	role translate.Role
	pod  types.NamespacedName
	// owner is the gang's owner, where that is an object of its own.
	owner types.NamespacedName
}

// owners finds out which gang a pod belongs to. The answer is kept until the pod
// is gone: it changes only where an owner did not exist when it was asked for.
type owners struct {
	cache client.Reader // may lag
	live  client.Reader // asks the API server
	// placed tells the gang in whose allocation a pod already has a slot: the
	// spool remembers it even when the owners are gone.
	placed func(types.UID) (key string, ok bool)
	// watch begins to watch a kind of owner, if it is not watched yet, and tells
	// whether the cluster has it.
	watch func(schema.GroupVersionKind) (installed bool, err error)

	mu    sync.Mutex
	byPod map[types.UID]membership
	byKey map[string]map[types.UID]bool
}

func newOwners(cache, live client.Reader, placed func(types.UID) (string, bool), watch func(schema.GroupVersionKind) (bool, error)) *owners {
	return &owners{
		cache: cache, live: live, placed: placed, watch: watch,
		byPod: map[types.UID]membership{}, byKey: map[string]map[types.UID]bool{},
	}
}

// resolve returns a pod's membership, asking for its owners if it is new.
func (o *owners) resolve(ctx context.Context, pod *corev1.Pod) (membership, error) {
	if m, ok := o.known(pod.UID); ok {
		return m, nil
	}
	return o.again(ctx, pod)
}

// again asks for a pod's owners whatever was known.
func (o *owners) again(ctx context.Context, pod *corev1.Pod) (membership, error) {
	m, err := o.ask(ctx, pod)
	if err != nil {
		return membership{}, fmt.Errorf("finding the gang of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	m.pod = client.ObjectKeyFromObject(pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.byPod[pod.UID]; ok && before.key != m.key {
		o.drop(pod.UID, before.key)
	}
	o.byPod[pod.UID] = m
	if o.byKey[m.key] == nil {
		o.byKey[m.key] = map[types.UID]bool{}
	}
	o.byKey[m.key][pod.UID] = true
	return m, nil
}

func (o *owners) known(uid types.UID) (membership, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, ok := o.byPod[uid]
	return m, ok
}

// forget drops a pod that is gone and returns the gang it was of.
func (o *owners) forget(uid types.UID) (key string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m, ok := o.byPod[uid]
	if !ok {
		return "", false
	}
	o.drop(uid, m.key)
	return m.key, true
}

// drop takes a pod out of its gang. The caller holds the lock.
func (o *owners) drop(uid types.UID, key string) {
	delete(o.byPod, uid)
	delete(o.byKey[key], uid)
	if len(o.byKey[key]) == 0 {
		delete(o.byKey, key)
	}
}

// keys are the known gangs whose key begins so.
func (o *owners) keys(prefix string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var keys []string
	for key := range o.byKey {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// members are the known pods of a gang.
func (o *owners) members(key string) map[types.UID]membership {
	o.mu.Lock()
	defer o.mu.Unlock()
	members := make(map[types.UID]membership, len(o.byKey[key]))
	for uid := range o.byKey[key] {
		members[uid] = o.byPod[uid]
	}
	return members
}

// ask finds a pod's place: where it has had one, or as the first kind says that
// joins it to a gang.
func (o *owners) ask(ctx context.Context, pod *corev1.Pod) (membership, error) {
	if key, ok := o.placed(pod.UID); ok {
		return membership{key: key}, nil
	}
	for _, k := range o.kinds() {
		m, ok, err := k.owner.member(ctx, pod)
		if ok || err != nil {
			return m, err
		}
	}
	return membership{key: translate.SinglePodKey(pod)}, nil
}

// get reads an owner from the cache and, where the cache has another or none,
// from the API server. An owner that is gone (its name may be another's by
// now) is reported as such.
func (o *owners) get(ctx context.Context, name types.NamespacedName, obj client.Object, uid types.UID) (gone bool, err error) {
	found, err := o.find(ctx, name, obj, func() bool { return obj.GetUID() == uid })
	return err == nil && !found, err
}

// find reads an object by its name: from the cache where that has one that will
// do, otherwise from the API server.
//
// The name may be one that somebody has written into a pod. Where nothing can have it, a
// client makes no call and an error of its own, which would never pass.
func (o *owners) find(ctx context.Context, name types.NamespacedName, obj client.Object, good func() bool) (found bool, err error) {
	if name.Name == "" || len(content.IsPathSegmentName(name.Name)) > 0 {
		return false, nil
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		installed, err := o.watch(u.GroupVersionKind())
		if err != nil || !installed {
			return false, err
		}
	}
	// The first read of a kind waits for the cache to be filled.
	cached, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	if err := o.cache.Get(cached, name, obj); err == nil && good() {
		return true, nil
	}
	err = o.live.Get(ctx, name, obj)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", obj.GetObjectKind().GroupVersionKind().Kind, name, err)
	}
	return good(), nil
}

// cacheTimeout bounds the wait for a cache that may never be filled (a right to
// list may be missing); the API server is asked then.
const cacheTimeout = 5 * time.Second

// selects tells whether a pod with this spec may be bound to the node: what the
// scheduler's NodeAffinity and TaintToleration filters would say.
func selects(node *corev1.Node) func(corev1.PodSpec) bool {
	return func(spec corev1.PodSpec) bool {
		if spec.NodeName != "" {
			return spec.NodeName == node.Name
		}
		matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec}).Match(node)
		if err != nil || !matches {
			return false
		}
		untolerated := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
		_, kept := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, spec.Tolerations, untolerated, true)
		return !kept
	}
}
