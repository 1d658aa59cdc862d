package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/gangline/gangline/plugin/gangs"
)

// podWatch keeps an eye on the pods of a namespace.
type podWatch struct {
	namespace, selector string
	// see is told of each pod, as it is and after each change, gone of those that are no
	// more: one call at a time.
	see, gone func(*corev1.Pod)
	// trouble is told why the watch has broken off; it is begun anew.
	trouble func(error)
}

// watched is a watch that has begun: all pods that there were have been seen.
type watched struct {
	store cache.Store
	err   error // why it ended, when done is closed, unless it was told to
	done  <-chan struct{}
}

// watch begins to watch. It ends with the context, or when the user may not watch.
func (c *clients) watch(ctx context.Context, w podWatch) (*watched, error) {
	// An informer would try for ever what is not allowed.
	if _, err := c.kube.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: w.selector, Limit: 1}); err != nil {
		return nil, explained(err, "list", "pods", w.namespace)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(c.kube, 0, informers.WithNamespace(w.namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = w.selector }))
	informer := factory.Core().V1().Pods().Informer()
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		switch {
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			cancel(explained(err, "watch", "pods", w.namespace))
		case errors.Is(err, io.EOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			// a watch ends now and then
		default:
			w.trouble(explained(err, "watch", "pods", w.namespace))
		}
	})
	if err != nil {
		cancel(err)
		return nil, fmt.Errorf("preparing to watch pods: %w", err)
	}
	seen, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.see(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { w.see(o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			if pod, ok := o.(*corev1.Pod); ok {
				w.gone(pod)
			}
		},
	})
	if err != nil {
		cancel(err)
		return nil, fmt.Errorf("preparing to watch pods: %w", err)
	}
	done := make(chan struct{})
	result := &watched{store: informer.GetStore(), done: done}
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			result.err = err
		}
	}()
	if !cache.WaitForCacheSync(ctx.Done(), seen.HasSynced) {
		<-done
		return result, result.err
	}
	return result, nil
}

// pods are those that are there now.
func (w *watched) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range w.store.List() {
		pods = append(pods, o.(*corev1.Pod))
	}
	return pods
}

// settle is how long changes are gathered: one of a gang is one of each of its pods.
const settle = 200 * time.Millisecond

// watch prints gangs, and then each that has changed, until the context ends.
func (l *lister) watch(ctx context.Context, errs io.Writer) error {
	changed := make(chan struct{}, 1)
	note := func(*corev1.Pod) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	w, err := l.clients.watch(ctx, podWatch{
		namespace: l.in(), selector: l.selector, see: note, gone: note,
		trouble: func(err error) { fmt.Fprintln(errs, "the watch was interrupted, and goes on:", err) },
	})
	if err != nil {
		return err
	}
	shown := map[string][]string{}
	show := func() error {
		now := l.wanted(gangs.Group(w.pods()))
		var fresh []gangs.Gang
		there := map[string]bool{}
		for _, g := range now {
			there[identity(g)] = true
			if cells := l.unaged(g); !reflect.DeepEqual(cells, shown[identity(g)]) {
				shown[identity(g)] = cells
				fresh = append(fresh, g)
			}
		}
		for id := range shown {
			if !there[id] {
				delete(shown, id)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		return l.print(fresh)
	}
	for {
		if err := show(); err != nil {
			return err
		}
		select {
		case <-w.done:
			return w.err
		case <-changed:
		}
		select {
		case <-w.done:
			return w.err
		case <-time.After(settle):
		}
	}
}

// unaged is what is shown of a gang, without what changes as time goes by.
func (l *lister) unaged(g gangs.Gang) []string {
	var cells []string
	for _, c := range columns() {
		if !c.wide || l.format == asWide {
			cells = append(cells, c.cell(g, g.Created.Time))
		}
	}
	return cells
}
