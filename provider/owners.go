package provider

import (
	"context"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate"
)

// membership is a pod's place: its gang and its role in it.
type membership struct {
	key  string
	role translate.Role
	pod  types.NamespacedName
	// owner is the JobSet, where there is one.
	owner types.NamespacedName
}

// owners finds out which gang a pod belongs to. The answer never changes
// during a pod's life, so it is kept until the pod is gone.
type owners struct {
	cache client.Reader // may lag
	live  client.Reader // asks the API server
	// placed tells the gang in whose allocation a pod already has a slot: the
	// spool remembers it even when the owners are gone.
	placed func(types.UID) (key string, ok bool)

	mu    sync.Mutex
	byPod map[types.UID]membership
	byKey map[string]map[types.UID]bool
}

func newOwners(cache, live client.Reader, placed func(types.UID) (string, bool)) *owners {
	return &owners{
		cache: cache, live: live, placed: placed,
		byPod: map[types.UID]membership{}, byKey: map[string]map[types.UID]bool{},
	}
}

// resolve returns a pod's membership, asking for its owners if it is new.
func (o *owners) resolve(ctx context.Context, pod *corev1.Pod) (membership, error) {
	if m, ok := o.known(pod.UID); ok {
		return m, nil
	}
	m, err := o.ask(ctx, pod)
	if err != nil {
		return membership{}, fmt.Errorf("finding the gang of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	m.pod = client.ObjectKeyFromObject(pod)
	o.mu.Lock()
	defer o.mu.Unlock()
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
	delete(o.byPod, uid)
	delete(o.byKey[m.key], uid)
	if len(o.byKey[m.key]) == 0 {
		delete(o.byKey, m.key)
	}
	return m.key, true
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

func (o *owners) ask(ctx context.Context, pod *corev1.Pod) (membership, error) {
	if key, ok := o.placed(pod.UID); ok {
		return membership{key: key}, nil
	}
	if key, ok := translate.NamedGangKey(pod); ok {
		return membership{key: key}, nil
	}
	alone := membership{key: translate.SinglePodKey(pod)}
	// A pod whose owner is gone belongs to a gang whose size nobody knows any
	// more. It will be deleted; until then it waits.
	orphan := membership{key: "orphan/" + string(pod.UID)}
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "Job" || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
		return alone, nil
	}
	job := &metav1.PartialObjectMetadata{}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	if gone, err := o.get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}, job, ref.UID); err != nil || gone {
		return orphan, err
	}
	ref = metav1.GetControllerOf(job)
	if ref == nil || ref.Kind != "JobSet" || ref.APIVersion != jobset.SchemeGroupVersion.String() {
		return alone, nil
	}
	js := &jobset.JobSet{}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}
	if gone, err := o.get(ctx, name, js, ref.UID); err != nil || gone {
		return orphan, err
	}
	role, ok := translate.JobSetRole(job.Labels, pod)
	if !ok {
		return alone, nil
	}
	stage, ok := translate.Stage(js, role.Group)
	if !ok {
		return alone, nil
	}
	return membership{key: translate.JobSetKey(js, stage), role: role, owner: name}, nil
}

// get reads an owner from the cache and, where the cache has another or none,
// from the API server. An owner that is gone (its name may be another's by
// now) is reported as such.
func (o *owners) get(ctx context.Context, name types.NamespacedName, obj client.Object, uid types.UID) (gone bool, err error) {
	if err := o.cache.Get(ctx, name, obj); err == nil && obj.GetUID() == uid {
		return false, nil
	}
	err = o.live.Get(ctx, name, obj)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return true, nil
	}
	return err == nil && obj.GetUID() != uid, err
}

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
