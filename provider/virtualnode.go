package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gangline/gangline/provider/wlm"
)

// leaseSeconds and statusInterval are kubelet's defaults (--node-status-*).
const (
	leaseSeconds      = 40
	statusInterval    = time.Minute
	inventoryInterval = 30 * time.Second
)

// virtualNode keeps the node's object, lease and status, by virtual-kubelet's
// node controller.
type virtualNode struct {
	clientset kubernetes.Interface
	manager   wlm.Manager
	facts     NodeFacts // but for what changes

	mu        sync.Mutex
	object    *corev1.Node
	server    *corev1.Node // as the API server has it, with others' labels; nil until seen
	inventory wlm.Inventory
	err       error // the last listing's
	notify    func(*corev1.Node)

	publishing sync.Mutex // one report at a time, the newest last
}

// newVirtualNode asks the workload manager once: a node without a capacity
// would be of no use.
func newVirtualNode(ctx context.Context, clientset kubernetes.Interface, manager wlm.Manager, facts NodeFacts) (*virtualNode, error) {
	v := &virtualNode{clientset: clientset, manager: manager, facts: facts}
	inv, err := manager.Inventory(ctx)
	if err != nil {
		silence := fmt.Errorf("asking the workload manager what it has: %w", err)
		if err := v.resume(ctx, silence); err != nil {
			return nil, errors.Join(silence, err)
		}
		return v, nil
	}
	if partitionOf(facts.Config, inv) == nil {
		return nil, fmt.Errorf("the workload manager has no partition %q: it has %s", facts.Config.Partition, partitionNames(inv))
	}
	v.inventory = inv
	v.rebuild()
	return v, nil
}

// resume goes on with the node as the API server has it, while the workload
// manager is silent: without its lease the node's pods would be evicted, and
// healthy jobs with them.
func (v *virtualNode) resume(ctx context.Context, silence error) error {
	have, err := v.clientset.CoreV1().Nodes().Get(ctx, v.facts.Config.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("and there is no node yet to go on with: %w", err)
	}
	v.object, v.err = have, silence
	v.rebuild()
	logr.FromContextOrDiscard(ctx).Error(silence, "going on with the node as it was")
	return nil
}

func partitionNames(inv wlm.Inventory) []string {
	var names []string
	for _, p := range inv.Partitions {
		names = append(names, p.Name)
	}
	return names
}

// Ping is virtual-kubelet's question whether the node is well. It always is
// while this process runs: what the workload manager does is a condition, and
// no reason to have pods evicted.
func (v *virtualNode) Ping(context.Context) error { return nil }

// NotifyNodeStatus keeps the function by which a new status is reported.
func (v *virtualNode) NotifyNodeStatus(_ context.Context, notify func(*corev1.Node)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notify = notify
}

var _ node.NodeProvider = (*virtualNode)(nil)

// current is the node as it is published.
func (v *virtualNode) current() *corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.object
}

// scheduled is the node as the scheduler sees it: administrators may have given
// it labels and taints of their own.
func (v *virtualNode) scheduled() *corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.server != nil {
		return v.server
	}
	return v.object
}

func (v *virtualNode) saw(n *corev1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.server = n
}

// stock is the last inventory.
func (v *virtualNode) stock() wlm.Inventory {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.inventory
}

// heard takes the outcome of a listing.
func (v *virtualNode) heard(err error) {
	v.mu.Lock()
	changed := (err == nil) != (v.err == nil)
	v.err = err
	v.mu.Unlock()
	if changed {
		v.publish()
	}
}

// publish rebuilds the object and reports it if anything but times changed.
func (v *virtualNode) publish() {
	v.mu.Lock()
	before := v.object
	v.mu.Unlock()
	v.publishing.Lock()
	defer v.publishing.Unlock()
	after := v.rebuild()
	v.mu.Lock()
	notify := v.notify
	v.mu.Unlock()
	if notify != nil && !sameNode(before, after) {
		notify(after.DeepCopy())
	}
}

func (v *virtualNode) rebuild() *corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.facts
	f.Inventory, f.Unreachable, f.Now = v.inventory, v.err, time.Now()
	v.object = NodeObject(f, v.object)
	return v.object
}

func sameNode(a, b *corev1.Node) bool {
	strip := func(n *corev1.Node) *corev1.Node {
		n = n.DeepCopy()
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return n
	}
	return equality.Semantic.DeepEqual(strip(a), strip(b))
}

// run publishes the node until the context ends.
func (v *virtualNode) run(ctx context.Context) error {
	nodes := v.clientset.CoreV1().Nodes()
	if err := v.ensureTaint(ctx); err != nil {
		return err
	}
	controller, err := node.NewNodeController(v, v.current().DeepCopy(), nodes,
		node.WithNodeEnableLeaseV1(v.clientset.CoordinationV1().Leases(corev1.NamespaceNodeLease), leaseSeconds),
		node.WithNodeStatusUpdateInterval(statusInterval),
		node.WithNodeStatusUpdateErrorHandler(func(ctx context.Context, err error) error {
			if apierrors.IsNotFound(err) {
				return v.recreate(ctx)
			}
			return err
		}),
	)
	if err != nil {
		return fmt.Errorf("making the node controller: %w", err)
	}
	if err := v.watch(ctx); err != nil {
		return err
	}
	go v.watchInventory(ctx)
	if err := controller.Run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("keeping the virtual node: %w", err)
	}
	return nil
}

func (v *virtualNode) watchInventory(ctx context.Context) {
	ticker := time.NewTicker(inventoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		inv, err := v.manager.Inventory(ctx)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "the workload manager did not say what it has; keeping what was known")
			continue
		}
		v.mu.Lock()
		v.inventory = inv
		v.mu.Unlock()
		v.publish()
	}
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
		DeleteFunc: func(any) {
			if err := v.recreate(ctx); err != nil && ctx.Err() == nil {
				logr.FromContextOrDiscard(ctx).Error(err, "the node was deleted; it is made again at its next update")
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching the node: %w", err)
	}
	factory.Start(ctx.Done())
	return nil
}

// recreate makes the node again after somebody has deleted it: without it the
// pods would be failed and removed within a minute.
func (v *virtualNode) recreate(ctx context.Context) error {
	_, err := v.clientset.CoreV1().Nodes().Create(ctx, v.current().DeepCopy(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the node again: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("the node had been deleted and was made again")
	return nil
}

// ensureTaint puts the taint on a node that exists already: the node
// controller sets it at creation only.
func (v *virtualNode) ensureTaint(ctx context.Context) error {
	nodes := v.clientset.CoreV1().Nodes()
	have, err := nodes.Get(ctx, v.facts.Config.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	taint := NodeTaint()
	if slices.ContainsFunc(have.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		return nil
	}
	have.Spec.Taints = append(have.Spec.Taints, taint)
	if _, err := nodes.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("tainting the node: %w", err)
	}
	return nil
}
