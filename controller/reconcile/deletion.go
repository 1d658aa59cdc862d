package reconcile

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// deletionWait is how long a component stays deleted before it is made anew.
const deletionWait = time.Second

// unhurried looks at the TrainJob of a deleted component a moment later, and once
// for several: whoever deletes all ConfigMaps, or a namespace, is done by then,
// and sees that they are gone. A JobSet is missed at once: it may be gone in order
// to be made anew.
type unhurried struct{ handler.EventHandler }

func (u unhurried) Delete(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	if _, isJobSet := e.Object.(*jobsetv1alpha2.JobSet); !isJobSet {
		queue = laterQueue{queue}
	}
	u.EventHandler.Delete(ctx, e, queue)
}

// laterQueue is a queue in which everything waits.
type laterQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
}

func (q laterQueue) Add(request ctrl.Request) { q.AddAfter(request, deletionWait) }
