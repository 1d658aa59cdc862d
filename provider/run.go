package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider/kubelet"
	"github.com/gangline/gangline/provider/observe/health"
	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/page"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// workers is how many gangs are looked at side by side. Most of their time is
// spent waiting for the API server or the workload manager.
const workers = 16

// cachesPatience is how long the first list of pods may take. That of 100,000 takes minutes
// of a busy API server; a node that gave up would be started again, and ask again.
const cachesPatience = 30 * time.Minute

// The rate of calls to the API server, per second, of all virtual nodes of the process. A
// kubelet's is 50 (kubeAPIQPS) for the pods of one machine; a virtual node stands for
// hundreds of them. The API server guards itself by priority and fairness.
const (
	apiQPS   = 1000
	apiBurst = 2000
)

// The rate of Events, per second, beside that (a kubelet's is 50, eventRecordQPS). A
// thousand more wait for their turn, and what goes beyond is not told, as with kubelet.
const (
	eventQPS   = 200
	eventBurst = 1000
)

// The rate of questions after the rights of who calls the node's port, per second.
const (
	reviewQPS   = 50
	reviewBurst = 100
)

// Options are what Run needs beside the configuration.
type Options struct {
	Config  Config
	Manager wlm.Manager
	// Kind is the workload manager for people: "Slurm".
	Kind    string
	REST    *rest.Config
	Version string
	// Sites are the HPC users' sites. OnlyUser is the one that all gangs are of, where the
	// provider cannot act for others; UIDs gets the numbers of those it acts for.
	Sites    Sites
	OnlyUser string
	UIDs     *UIDs
	// Certificates are those that were asked for while this process stood by; nil if it
	// did not.
	Certificates Certificates
	// Reloader has the map of identities, which may change while the node runs. Nil for one
	// that does not change.
	Reloader *Reloader
}

// prepareNode makes one virtual node of the process, up to its start.
func prepareNode(ctx context.Context, o Options, c Config, shared common) (nodeRun, error) {
	node, err := newVirtualNode(ctx, shared.clientset, shared.inventory, NodeFacts{
		Config: c, Manager: shared.version, Version: o.Version, ClusterUID: shared.cluster,
	})
	if err != nil {
		return nodeRun{}, err
	}
	mgr, err := newManager(ctx, shared.rest, c, shared.ready)
	if err != nil {
		return nodeRun{}, err
	}
	watches := newOwnerWatches(mgr.GetCache(), mgr.GetRESTMapper())
	r, err := newReconciler(ctx, o, c, shared, mgr, node, watches)
	if err != nil {
		return nodeRun{}, err
	}
	if err := r.meetPeople(ctx, o, shared.metrics); err != nil {
		return nodeRun{}, err
	}
	node.countOwn(func() usage { return ownUsage(r.registry, r.statuses) })
	if err := r.setup(mgr, watches); err != nil {
		return nodeRun{}, err
	}
	if c.Volumes.Provision && c.NodeName == o.Config.NodeName { // one for all nodes of the process
		p := &provisioner{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: r.recorder, cluster: c.Cluster}
		if err := p.setup(mgr); err != nil {
			return nodeRun{}, err
		}
	}
	pages, err := page.NewHandler(&pageSource{r: r, node: node, manager: shared.version})
	if err != nil {
		return nodeRun{}, err
	}
	server, err := newServer(ctx, c, shared, o.Certificates[c.NodeName], r.recorder, pages,
		&kubeletPods{reader: r.client, live: r.live, node: c.NodeName, registry: r.registry, keys: r.keys})
	if err != nil {
		return nodeRun{}, err
	}
	orphans := newOrphanTable(c, r.recorder, r.metrics)
	err = addRunnables(mgr,
		server.Run,
		node.run,
		func(ctx context.Context) error { return r.statuses.run(ctx, r.look) },
		func(ctx context.Context) error { return r.lookForOrphans(ctx, orphans) },
		addReadiness(shared.ready, c.NodeName, mgr.GetCache(), node, r.people),
	)
	if err != nil {
		return nodeRun{}, err
	}
	logr.FromContextOrDiscard(ctx).Info("the virtual node starts", "node", c.NodeName, "workloadManager", shared.version, "spool", c.Spool, "allocations", len(r.registry.live()))
	return nodeRun{
		page: page.Named{Node: c.NodeName, Page: pages}, manager: mgr, listed: r.listed(ctx, node), lookAtAll: r.lookAtAll,
		tell: func(eventType, reason, message string) {
			r.recorder.Event(nodeReference(c.NodeName), eventType, reason, message)
		},
	}, nil
}

// newReconciler makes what looks at a node's gangs, and the node's metrics. It knows no
// people yet (meetPeople), and watches nothing (setup).
func newReconciler(ctx context.Context, o Options, c Config, shared common, mgr manager.Manager, node *virtualNode, watches *ownerWatches) (*Reconciler, error) {
	keys, err := loadKeySource(ctx, shared.clientset, c.Namespace, c.NodeName)
	if err != nil {
		return nil, err
	}
	registry := newRegistry(translate.Names{Cluster: string(shared.cluster), Node: c.NodeName})
	shared.family.registries = append(shared.family.registries, registry)
	sums := &summaries{}
	r := &Reconciler{
		config: c, client: mgr.GetClient(), live: mgr.GetAPIReader(), clientset: shared.clientset,
		manager: shared.manager, kind: o.Kind, recorder: newRecorder(ctx, shared.events, c.NodeName),
		registry: registry, family: shared.family,
		owners:     newOwners(mgr.GetClient(), mgr.GetAPIReader(), registry.gangOf, watches.ensure),
		identities: shared.identities,
		jobs:       shared.jobs,
		statuses:   newStatusTable(registry, c.SpoolInterval.Duration),
		writes:     newWrites(mgr.GetClient()),
		objects:    newObjects(mgr.GetAPIReader(), clock.RealClock{}, c.Volumes.turn()),
		tokens:     newTokens(shared.clientset, clock.RealClock{}),
		updates:    newUpdates(),
		keys:       keys, node: node.scheduled,
		hpc: func() hpcView {
			inventory := node.stock()
			view := newHPCView(c, inventory)
			view.summary = sums.get(inventory)
			if checker, ok := o.Manager.(wlm.Checker); ok {
				view.check = checker.Check
			}
			return view
		},
		tracer: shared.tracer, began: time.Now(),
	}
	r.metrics, err = metrics.NewNode(metricsOf(o.Config, c.NodeName), sources(func() *people { return r.people }, registry, r.statuses, node))
	if err != nil {
		return nil, err
	}
	r.statuses.metrics = r.metrics
	return r, nil
}

// addRunnables has the manager run a node's parts beside its controllers.
func addRunnables(mgr manager.Manager, runnables ...manager.RunnableFunc) error {
	for _, run := range runnables {
		if err := mgr.Add(run); err != nil {
			return fmt.Errorf("preparing the virtual node: %w", err)
		}
	}
	return nil
}

// newServer makes the node's port. It asks about its callers with a client of
// its own: strangers must not use up the node's calls.
func newServer(ctx context.Context, c Config, shared common, requested *kubelet.RequestedCertificate, recorder record.EventRecorder, pages http.Handler, pods *kubeletPods) (*kubelet.Server, error) {
	own := rest.CopyConfig(shared.rest)
	own.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(reviewQPS, reviewBurst)
	reviews, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making the API server's client: %w", err)
	}
	return kubelet.New(ctx, kubelet.Config{
		Address: c.Kubelet.Address, Port: c.Kubelet.Port, NodeName: c.NodeName,
		CertFile: c.Kubelet.CertFile, KeyFile: c.Kubelet.KeyFile, CertDir: c.Kubelet.CertDir, Requested: requested,
		ClientCAFile: c.Kubelet.ClientCAFile, Reviews: reviews, Recorder: recorder,
		Usages: newUsageReader(pods, c.GPUResource), Ready: shared.ready, Metrics: ctrlmetrics.Registry, Page: pages,
	}, shared.clientset, pods)
}

// look has a gang looked at.
func (r *Reconciler) look(key string) { r.wake.add(Request{Gang: key}) }

// lookAtAll has all gangs looked at, those too whose pods were not known to be any's.
func (r *Reconciler) lookAtAll() {
	for _, key := range slices.Concat(r.registry.keys(""), r.owners.keys("")) {
		r.look(key)
	}
}

// listed is called after each listing: the gangs whose jobs have changed are
// looked at, and so are those whose job was expected and not seen.
func (r *Reconciler) listed(ctx context.Context, node *virtualNode) func(changed []string, err error) {
	return func(changed []string, err error) {
		if node.heard(err) {
			r.tellOutage(err)
		}
		if err != nil {
			return
		}
		names := make(map[string]bool, len(changed))
		for _, name := range changed {
			names[name] = true
		}
		go r.cancelLate(ctx)
		for _, a := range r.registry.live() {
			jobs, _ := r.jobs.named(a.name())
			jobs = r.people.ofUser(jobs, a.gang.User)
			if names[a.name()] || len(jobs) == 0 {
				r.look(a.gang.Key)
			}
		}
	}
}

func newManager(ctx context.Context, rc *rest.Config, c Config, ready http.Handler) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), jobset.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering the API types: %w", err)
	}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme: scheme,
		// What runs in it logs by its context, and would have none without this.
		BaseContext: func() context.Context { return context.WithoutCancel(ctx) },
		Metrics: metricsserver.Options{
			BindAddress:   cmp.Or(c.MetricsAddress, "0"), // none
			ExtraHandlers: map[string]http.Handler{"/healthz": health.Live(), "/readyz": ready},
		},
		Cache: cache.Options{
			// Who has set which field is nothing to the node, and a third of a pod.
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", c.NodeName)},
			},
		},
		// What pods refer to is asked for by name: no watch, no list. Owners whose
		// types are not known here are watched all the same.
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}}, Unstructured: true,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller manager: %w", err)
	}
	return mgr, nil
}

// component is what Events say they come from.
const component = "gangline-node"

func newRecorder(ctx context.Context, clientset kubernetes.Interface, node string) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clientset.CoreV1().Events("")})
	return broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: component, Host: node})
}

// setup joins the reconciler to what it watches.
func (r *Reconciler) setup(mgr manager.Manager, watches *ownerWatches) error {
	c, err := controller.NewTyped("gangs", mgr, controller.TypedOptions[Request]{
		Reconciler:              r,
		SkipNameValidation:      ptr.To(true), // each virtual node of the process has one
		MaxConcurrentReconciles: workers,
		CacheSyncTimeout:        cachesPatience,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[Request](100*time.Millisecond, time.Minute),
		LogConstructor:          func(*Request) logr.Logger { return mgr.GetLogger() },
	})
	if err != nil {
		return fmt.Errorf("making the gangs' controller: %w", err)
	}
	watches.watcher, watches.handler = c, r.ownerEvents()
	sources := []source.TypedSource[Request]{
		source.TypedFunc[Request](func(_ context.Context, q queue) error {
			r.wake.open(q)
			for _, key := range r.registry.keys("") {
				r.look(key)
			}
			return nil
		}),
		source.TypedKind(mgr.GetCache(), &corev1.Pod{}, r.podEvents()),
		source.TypedKind(mgr.GetCache(), jobMetadata(), ignoreEvents[*metav1.PartialObjectMetadata]()),
	}
	installed, err := hasJobSets(mgr)
	if err != nil {
		return err
	}
	if installed {
		sources = append(sources, source.TypedKind(mgr.GetCache(), &jobset.JobSet{}, r.jobSetEvents()))
	} else {
		mgr.GetLogger().Info("JobSet is not installed in this cluster: its gangs will not run; restart after installing it")
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	return nil
}

func jobMetadata() *metav1.PartialObjectMetadata {
	job := &metav1.PartialObjectMetadata{}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	return job
}

func hasJobSets(mgr manager.Manager) (bool, error) {
	_, err := mgr.GetRESTMapper().RESTMapping(jobset.SchemeGroupVersion.WithKind("JobSet").GroupKind(), jobset.SchemeGroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether JobSet is installed: %w", err)
	}
	return true, nil
}
