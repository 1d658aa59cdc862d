package provider

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate"
)

type queue = workqueue.TypedRateLimitingInterface[Request]

// wakeups lets those outside the controller have gangs looked at. What comes
// before the controller has made its queue is kept until then.
type wakeups struct {
	mu    sync.Mutex
	queue queue
	early []Request
}

func (w *wakeups) add(req Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		w.early = append(w.early, req)
		return
	}
	w.queue.Add(req)
}

func (w *wakeups) open(q queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = q
	for _, req := range w.early {
		q.Add(req)
	}
	w.early = nil
}

// podEvents has a pod's gang looked at, or finds out what it is first.
func (r *Reconciler) podEvents() handler.TypedEventHandler[*corev1.Pod, Request] {
	see := func(pod *corev1.Pod, q queue) {
		if m, ok := r.owners.known(pod.UID); ok {
			q.Add(Request{Gang: m.key})
			return
		}
		q.Add(Request{Pod: client.ObjectKeyFromObject(pod)})
	}
	return handler.TypedFuncs[*corev1.Pod, Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) { see(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID {
				see(e.ObjectOld, q) // one name, another pod: the old one is gone
			}
			see(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Pod], q queue) { see(e.Object, q) },
	}
}

// jobSetEvents has the gangs of a JobSet looked at that have pods or an
// allocation; the others have nothing to do yet.
func (r *Reconciler) jobSetEvents() handler.TypedEventHandler[*jobset.JobSet, Request] {
	see := func(js *jobset.JobSet, q queue) {
		for stage := range js.Spec.ReplicatedJobs {
			key := translate.JobSetKey(js, stage)
			if r.registry.latest(key) != nil || len(r.owners.members(key)) > 0 {
				q.Add(Request{Gang: key})
			}
		}
	}
	return handler.TypedFuncs[*jobset.JobSet, Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*jobset.JobSet], q queue) { see(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*jobset.JobSet], q queue) { see(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*jobset.JobSet], q queue) { see(e.Object, q) },
	}
}

// ignoreEvents watches for the cache's sake alone.
func ignoreEvents[T client.Object]() handler.TypedEventHandler[T, Request] {
	return handler.TypedFuncs[T, Request]{}
}

// nodeReference is how a Node's Events name it: kubectl describe looks for its name as
// UID too.
func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
