package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gangline/gangline/provider/observe/health"
	"github.com/gangline/gangline/provider/wlm"
)

const (
	// leaseSeconds is kubelet's nodeLeaseDurationSeconds, statusInterval its
	// nodeStatusReportFrequency: how often a status is written that has not
	// changed.
	leaseSeconds   = 40
	statusInterval = 5 * time.Minute
	// outageAfter is how long the workload manager may be silent before the node
	// says so: a restart of slurmctld is no outage.
	outageAfter = 10 * time.Second
)

// virtualNode keeps the node's object, lease and status, the last two by
// virtual-kubelet's node controller.
type virtualNode struct {
	clientset kubernetes.Interface
	manager   wlm.Manager
	facts     NodeFacts // but for what changes

	mu        sync.Mutex
	object    *corev1.Node
	server    *corev1.Node // as the API server has it, with others' labels; nil while it has none
	inventory wlm.Inventory
	ours      usage     // at the time of the inventory
	answered  time.Time // when the workload manager last did
	err       error     // the last listing's, once it has been silent for long
	remade    bool      // the node has been made again, which the controller does not know yet
	notify    func(*corev1.Node)
	// own tells what this node's pods use now; nil until it is known.
	own func() usage

	published *health.Once // the controller has made the node, or found it

	stale chan struct{} // tells publish that something may have changed
}

// newVirtualNode asks the workload manager once: a node without a capacity
// would be of no use. While it is silent, the node goes on as the API server
// has it: without its lease the node's pods would be evicted, and healthy jobs
// with them.
func newVirtualNode(ctx context.Context, clientset kubernetes.Interface, manager wlm.Manager, facts NodeFacts) (*virtualNode, error) {
	v := &virtualNode{
		clientset: clientset, manager: manager, facts: facts,
		answered: time.Now(), stale: make(chan struct{}, 1),
	}
	have, err := clientset.CoreV1().Nodes().Get(ctx, facts.Config.NodeName, metav1.GetOptions{})
	switch {
	case err == nil:
		v.object, v.server = have, have
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading the node: %w", err)
	}
	inv, err := manager.Inventory(ctx)
	if err != nil {
		silence := fmt.Errorf("asking the workload manager what it has: %w", err)
		if v.object == nil {
			return nil, errors.Join(silence, errors.New("and there is no node yet to go on with"))
		}
		v.err = silence
		logr.FromContextOrDiscard(ctx).Error(silence, "going on with the node as it was")
	} else if partitionOf(facts.Config, inv) == nil {
		return nil, fmt.Errorf("the workload manager has no partition %q: it has %s", facts.Config.Partition, partitionNames(inv))
	}
	v.inventory = inv
	v.rebuild()
	return v, nil
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

// stock is the last inventory.
func (v *virtualNode) stock() wlm.Inventory {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.inventory
}

// heard takes the outcome of a listing, and reports whether the workload manager counts as
// away now and did not before, or the other way round.
func (v *virtualNode) heard(err error) (news bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.err
	switch now := time.Now(); {
	case err == nil:
		v.answered, v.err = now, nil
	case v.err == nil && now.Sub(v.answered) >= outageAfter:
		v.err = err
	}
	if (before == nil) == (v.err == nil) {
		return false
	}
	v.changed()
	return true
}

// changed has the node looked at. It never waits.
func (v *virtualNode) changed() {
	select {
	case v.stale <- struct{}{}:
	default: // it will be anyway
	}
}

func (v *virtualNode) rebuild() *corev1.Node {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.facts
	f.Inventory, f.Ours, f.Unreachable, f.Now = v.inventory, v.ours, v.err, time.Now()
	v.object = NodeObject(f, v.object)
	return v.object
}

// run keeps the node until the context ends.
func (v *virtualNode) run(ctx context.Context) error {
	if err := v.watch(ctx); err != nil {
		return err
	}
	go v.watchInventory(ctx)
	// The controller bears with no failure of its first write, and the end of this process
	// would be that of all its nodes.
	const forGood = 1 << 62
	err := patiently(ctx, forGood, askAgain, transient, v.keep)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("keeping the virtual node: %w", err)
	}
	return nil
}

// keep runs virtual-kubelet's node controller.
func (v *virtualNode) keep(ctx context.Context) error {
	if err := v.settleTaints(ctx); err != nil {
		return err
	}
	controller, err := node.NewNodeController(v, v.current().DeepCopy(), v.clientset.CoreV1().Nodes(),
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
	ctx, end := context.WithCancel(ctx)
	defer end()
	go v.publish(ctx, controller.Ready())
	return controller.Run(ctx)
}

// watchInventory asks what there is, again and again. After each answer the node
// is compared with what the API server has, so that what others have changed of
// it, and what could not be written, is put right.
func (v *virtualNode) watchInventory(ctx context.Context) {
	ticker := time.NewTicker(v.facts.Config.InventoryInterval.Duration)
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
		ours := v.usage()
		v.mu.Lock()
		v.inventory, v.ours = inv, ours
		v.changed()
		v.mu.Unlock()
	}
}

// countOwn has what this node's pods use told from what others use, from now on.
func (v *virtualNode) countOwn(own func() usage) {
	ours := own()
	v.mu.Lock()
	v.own, v.ours = own, ours
	v.mu.Unlock()
	v.rebuild()
}

func (v *virtualNode) usage() usage {
	v.mu.Lock()
	own := v.own
	v.mu.Unlock()
	if own == nil {
		return nil
	}
	return own()
}
