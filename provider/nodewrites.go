package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/gangline/gangline/translate/wellknown"
)

// publish writes the node whenever it differs from what the API server has.
func (v *virtualNode) publish(ctx context.Context, ready <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-ready: // the controller has made the node, or found it
		v.published.Done()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.stale:
		}
		v.rebuild()
		v.mu.Lock()
		object, server, notify, remade := v.object, v.server, v.notify, v.remade
		v.remade = false
		v.mu.Unlock()
		if server == nil { // deleted, or not seen yet
			if err := v.recreate(ctx); err != nil && ctx.Err() == nil {
				logr.FromContextOrDiscard(ctx).Error(err, "the node was deleted; trying again", "in", recreateAgain)
				time.AfterFunc(recreateAgain, v.changed)
			}
			continue // the watch tells of it
		}
		if remade || !published(v.facts.Config, server, object) {
			notify(object.DeepCopy())
		}
		if err := v.settleTaints(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "the node's taints are put right at the next look")
		}
	}
}

// published tells whether the API server has all that a node should be. Others'
// labels and conditions do not count, nor do times.
func published(c Config, server, want *corev1.Node) bool {
	if obsoleteLabels(c, server, want) {
		return false
	}
	for key, value := range want.Labels {
		if have, ok := server.Labels[key]; !ok || have != value {
			return false
		}
	}
	conditions := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, c := range server.Status.Conditions {
		conditions[c.Type] = timeless(c)
	}
	for _, c := range want.Status.Conditions {
		if conditions[c.Type] != timeless(c) {
			return false
		}
	}
	a, b := server.Status, want.Status
	return equality.Semantic.DeepEqual(a.DeclaredFeatures, b.DeclaredFeatures) &&
		equality.Semantic.DeepEqual(a.Capacity, b.Capacity) &&
		equality.Semantic.DeepEqual(a.Allocatable, b.Allocatable) &&
		equality.Semantic.DeepEqual(a.Addresses, b.Addresses) &&
		a.DaemonEndpoints == b.DaemonEndpoints && equality.Semantic.DeepEqual(a.NodeInfo, b.NodeInfo)
}

func timeless(c corev1.NodeCondition) corev1.NodeCondition {
	c.LastHeartbeatTime, c.LastTransitionTime = metav1.Time{}, metav1.Time{}
	return c
}

// settleTaints brings the taints of a node that exists to what they should be:
// the node controller sets them at creation only.
func (v *virtualNode) settleTaints(ctx context.Context) error {
	v.mu.Lock()
	server, object := v.server, v.object
	v.mu.Unlock()
	if server == nil || settled(server, object) {
		return nil
	}
	nodes := v.clientset.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		have, err := nodes.Get(ctx, object.Name, metav1.GetOptions{})
		if err != nil || settled(have, object) {
			return err
		}
		have = have.DeepCopy()
		have.Spec.Taints = mergeTaints(have.Spec.Taints, object.Spec.Taints, have.Annotations[wellknown.AnnotationNodeTaints])
		if have.Annotations == nil {
			have.Annotations = map[string]string{}
		}
		have.Annotations[wellknown.AnnotationNodeTaints] = object.Annotations[wellknown.AnnotationNodeTaints]
		_, err = nodes.Update(ctx, have, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("setting the node's taints: %w", err)
	}
	return nil
}

func settled(have, want *corev1.Node) bool {
	before := have.Annotations[wellknown.AnnotationNodeTaints]
	return before == want.Annotations[wellknown.AnnotationNodeTaints] &&
		sameTaints(have.Spec.Taints, mergeTaints(have.Spec.Taints, want.Spec.Taints, before))
}

// watch follows the node in the API server, and has it made again as soon as it
// is deleted; the node controller would notice only at its next update.
func (v *virtualNode) watch(ctx context.Context) error {
	mine := fields.OneTermEqualSelector(metav1.ObjectNameField, v.facts.Config.NodeName).String()
	factory := informers.NewSharedInformerFactoryWithOptions(v.clientset, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = mine }))
	see := func(object any) {
		if n, ok := object.(*corev1.Node); ok {
			v.saw(n)
		}
	}
	_, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, now any) { see(now) },
		DeleteFunc: func(any) { v.saw(nil) },
	})
	if err != nil {
		return fmt.Errorf("watching the node: %w", err)
	}
	factory.Start(ctx.Done())
	return nil
}

// saw takes the node as the API server has it, nil once it is deleted. A new one
// has to be told to the node controller, which would name the old one as the
// lease's owner.
func (v *virtualNode) saw(n *corev1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.server
	v.server = n
	if (before == nil) != (n == nil) || n != nil && before.UID != n.UID {
		v.remade = n != nil
		v.changed()
	}
}

// recreateAgain is the time between two tries to make a deleted node again.
const recreateAgain = 2 * time.Second

// recreate makes the node again after somebody has deleted it: without it the
// pods would be failed and removed within a minute.
func (v *virtualNode) recreate(ctx context.Context) error {
	_, err := v.clientset.CoreV1().Nodes().Create(ctx, v.current().DeepCopy(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making the node again: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("the node had been deleted and was made again")
	return nil
}
