package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gangline/gangline/provider/observe/health"
	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/observe/tracing"
	"github.com/gangline/gangline/provider/page"
	"github.com/gangline/gangline/provider/wlm"
)

// NodeEntry is one more virtual node of the same process, for another partition. What it
// does not say is as the first node's.
type NodeEntry struct {
	// Name is the virtual node's name, Partition the one that it stands for.
	Name      string `json:"name"`
	Partition string `json:"partition"`
	// Port is that of the node's own API. Default: the one after the node before it.
	Port        int32 `json:"port,omitempty"`
	QueueFactor int   `json:"queueFactor,omitempty"`
	MaxPods     int   `json:"maxPods,omitempty"`
	// NodeLabels and NodeTaints are added to the first node's.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	NodeTaints []corev1.Taint    `json:"nodeTaints,omitempty"`
}

// each are the configurations of the process's virtual nodes, the first one's first.
func (c Config) each() []Config {
	first := c
	first.Nodes = nil
	all := []Config{first}
	port := c.Kubelet.Port
	for _, entry := range c.Nodes {
		n := first
		n.NodeName, n.Partition = entry.Name, entry.Partition
		port++
		if entry.Port != 0 {
			port = entry.Port
		}
		n.Kubelet.Port = port
		if n.Kubelet.CertDir != "" {
			n.Kubelet.CertDir = filepath.Join(n.Kubelet.CertDir, entry.Name) // a certificate is for one name
		}
		if entry.QueueFactor != 0 {
			n.QueueFactor = entry.QueueFactor
		}
		if entry.MaxPods != 0 {
			n.MaxPods = entry.MaxPods
		}
		n.NodeLabels = maps.Clone(first.NodeLabels)
		for key, value := range entry.NodeLabels {
			if n.NodeLabels == nil {
				n.NodeLabels = map[string]string{}
			}
			n.NodeLabels[key] = value
		}
		n.NodeTaints = slices.Concat(first.NodeTaints, entry.NodeTaints)
		n.MetricsAddress = "" // the first one serves those of all
		n.PageAddress = ""    // and its page is beside those of all
		all = append(all, n)
	}
	return all
}

// nodesProblems is what is wrong with the further nodes.
func (c *Config) nodesProblems() []string {
	var problems []string
	names, ports := map[string]bool{}, map[int32]bool{}
	for i, n := range c.each() {
		switch {
		case i > 0 && (n.NodeName == "" || n.Partition == ""):
			problems = append(problems, fmt.Sprintf("nodes[%d] needs a name and a partition", i-1))
			continue
		case i > 0 && n.QueueFactor < 1:
			problems = append(problems, fmt.Sprintf("nodes: %s: queueFactor must be 1 or more, not %d", n.NodeName, n.QueueFactor))
		}
		if n.MaxPods < 1 {
			problems = append(problems, fmt.Sprintf("%s: maxPods must be 1 or more, not %d", n.NodeName, n.MaxPods))
		}
		if names[n.NodeName] {
			problems = append(problems, fmt.Sprintf("nodes: two nodes have the name %q", n.NodeName))
		}
		if ports[n.Kubelet.Port] {
			problems = append(problems, fmt.Sprintf("nodes: %s: another node has the port %d", n.NodeName, n.Kubelet.Port))
		}
		names[n.NodeName], ports[n.Kubelet.Port] = true, true
		if i > 0 {
			problems = append(problems, n.nodeProblems()...)
		}
	}
	return problems
}

// common is what the virtual nodes of a process share: one listing of jobs and one
// inventory for all of them.
type common struct {
	rest      *rest.Config
	clientset kubernetes.Interface
	events    kubernetes.Interface // only tells Events
	cluster   types.UID
	version   string // the workload manager's
	manager   wlm.Manager
	jobs      *jobTable
	inventory *sharedInventory
	family    *family
	// identities are those of all nodes.
	identities *identities
	// metrics are those of what the nodes share; ready are the parts that must be ready.
	metrics *metrics.Process
	ready   *health.Readiness
	tracer  *tracing.Tracer
}

// family are the registries of the process's virtual nodes: a gang may depend on one that
// is on another of them. It is complete before any of them starts.
type family struct{ registries []*registry }

// submitted are the jobs of all nodes' allocations that have not ended.
func (f *family) submitted() []wlm.JobRef {
	var refs []wlm.JobRef
	for _, r := range f.registries {
		refs = append(refs, r.submitted()...)
	}
	return refs
}

// nodeRun is one virtual node that is ready to start.
type nodeRun struct {
	manager manager.Manager
	page    page.Named
	listed  func(changed []string, err error)
	// lookAtAll has all gangs looked at; tell gives the node an Event.
	lookAtAll func()
	tell      func(eventType, reason, message string)
}

// gcPercent is how much the heap may grow, in percent of what lives, before garbage is
// collected, where the site's GOGC does not say. Go's own 100 lets it double. The node's
// heap is mostly what it knows of its pods, and its processor is idle.
const gcPercent = 40

// Run is the life of the process's virtual nodes: it ends with the context or with the
// first error that one of them cannot live with.
func Run(ctx context.Context, o Options) error {
	ctrl.SetLogger(logr.FromContextOrDiscard(ctx))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if o.Reloader != nil {
		o.Reloader.look(ctx, false) // no gang is decided by the map of before
	}
	shared, err := newCommon(ctx, o)
	if err != nil {
		return err
	}
	defer closeTracer(ctx, shared.tracer)
	var nodes []nodeRun
	for _, c := range o.Config.each() {
		n, err := prepareNode(ctx, o, c, shared)
		if err != nil {
			return fmt.Errorf("node %s: %w", c.NodeName, err)
		}
		nodes = append(nodes, n)
	}
	runs := []func(context.Context) error{func(ctx context.Context) error {
		return shared.jobs.run(ctx, func(changed []string, err error) {
			for _, n := range nodes {
				n.listed(changed, err)
			}
		})
	}}
	if inside, ok := o.Manager.(interface{ Run(context.Context) error }); ok {
		runs = append(runs, inside.Run) // a workload manager that lives in this process
	}
	if o.Reloader != nil {
		o.Reloader.lead(ctx, followersOf(nodes))
	}
	if address := o.Config.PageAddress; address != "" {
		var pages []page.Named
		for _, n := range nodes {
			pages = append(pages, n.page)
		}
		runs = append(runs, func(ctx context.Context) error { return page.ServeLoopback(ctx, address, pages) })
	}
	for _, run := range runs {
		if err := nodes[0].manager.Add(manager.RunnableFunc(run)); err != nil {
			return fmt.Errorf("preparing the virtual nodes: %w", err)
		}
	}
	return runAll(ctx, nodes)
}

// followersOf has all nodes hear of the configuration file.
func followersOf(nodes []nodeRun) followers {
	return followers{
		changed: func() {
			for _, n := range nodes {
				n.lookAtAll()
			}
		},
		tell: func(eventType, reason, message string) {
			for _, n := range nodes {
				n.tell(eventType, reason, message)
			}
		},
	}
}

// runAll runs the nodes until one of them ends, and then ends the others.
func runAll(ctx context.Context, nodes []nodeRun) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { ends <- n.manager.Start(ctx) }()
	}
	var errs []error
	for range nodes {
		if err := <-ends; err != nil {
			errs = append(errs, fmt.Errorf("running the virtual node: %w", err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

func newCommon(ctx context.Context, o Options) (common, error) {
	counted, err := metrics.NewProcess(ctrlmetrics.Registry, o.Version)
	if err != nil {
		return common{}, err
	}
	tracer, err := newTracer(ctx, o.Version)
	if err != nil {
		return common{}, err
	}
	rc := rest.CopyConfig(o.REST)
	rc.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(apiQPS, apiBurst) // one for all clients
	rc.Wrap(counted.API)
	asked := counted.Manager(o.Manager)
	clientset, events, err := clientsets(rc)
	if err != nil {
		return common{}, err
	}
	var system *corev1.Namespace
	// An API server that has just started forbids everything for a moment.
	starting := func(err error) bool { return transient(err) || apierrors.IsForbidden(err) }
	err = patiently(ctx, startPatience, askAgain, starting, func(ctx context.Context) (err error) {
		system, err = clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return common{}, fmt.Errorf("reading the cluster's identity (namespace kube-system): %w", err)
	}
	version, err := asked.Name(ctx)
	if err != nil {
		return common{}, fmt.Errorf("asking the workload manager for its version: %w", err)
	}
	all := &family{}
	ids := newIdentities(o.Config.Identity)
	if o.Reloader != nil {
		ids = o.Reloader.ids
	}
	return common{
		rest: rc, clientset: clientset, events: events, cluster: system.UID, version: version,
		jobs: &jobTable{
			manager: asked, interval: o.Config.JobInterval.Duration, history: newHistory(asked, all.submitted),
		},
		family: all, identities: ids,
		manager: asked, metrics: counted, ready: &health.Readiness{}, tracer: tracer,
		inventory: &sharedInventory{Manager: asked, fresh: o.Config.InventoryInterval.Duration / 2},
	}, nil
}

// clientsets are those of the process: one for its work, and one for Events, which are
// many when many pods start, and must not hold up what they tell of.
func clientsets(rc *rest.Config) (work, events kubernetes.Interface, err error) {
	own := rest.CopyConfig(rc)
	own.ContentType = runtime.ContentTypeProtobuf
	if work, err = kubernetes.NewForConfig(own); err == nil {
		own.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(eventQPS, eventBurst)
		events, err = kubernetes.NewForConfig(own)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("making the API server's client: %w", err)
	}
	return work, events, nil
}

// metricsOf is where a node's own metrics go. Several nodes of one process are told apart
// by a label.
func metricsOf(c Config, node string) prometheus.Registerer {
	if len(c.Nodes) == 0 {
		return ctrlmetrics.Registry
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"node": node}, ctrlmetrics.Registry)
}

// sharedInventory is a workload manager that is asked for its inventory once for all
// nodes that want it at about the same time.
type sharedInventory struct {
	wlm.Manager
	fresh time.Duration // how long an answer is good for the others

	mu   sync.Mutex
	at   time.Time
	last wlm.Inventory
}

// Inventory implements wlm.Manager. A failed query is not remembered.
func (s *sharedInventory) Inventory(ctx context.Context) (wlm.Inventory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < s.fresh {
		return s.last, nil
	}
	inv, err := s.Manager.Inventory(ctx)
	if err != nil {
		return wlm.Inventory{}, err
	}
	s.at, s.last = time.Now(), inv
	return inv, nil
}
