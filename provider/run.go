package provider

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider/kubelet"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// workers is how many gangs are looked at side by side. Most of their time is
// spent waiting for the API server or the workload manager.
const workers = 16

// The rate of calls to the API server, per second: kubelet's own defaults
// (kubeAPIQPS, kubeAPIBurst).
const (
	apiQPS   = 50
	apiBurst = 100
)

// Options are what Run needs beside the configuration.
type Options struct {
	Config  Config
	Manager wlm.Manager
	// Kind is the workload manager for people: "Slurm".
	Kind    string
	REST    *rest.Config
	Version string
}

// Run is the virtual node's life: it ends with the context or with the first
// error that it cannot live with.
func Run(ctx context.Context, o Options) error {
	log := logr.FromContextOrDiscard(ctx)
	ctrl.SetLogger(log)
	rc := rest.CopyConfig(o.REST)
	rc.QPS, rc.Burst = apiQPS, apiBurst
	clientset, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("making the API server's client: %w", err)
	}
	system, err := clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the cluster's identity (namespace kube-system): %w", err)
	}
	name, err := o.Manager.Name(ctx)
	if err != nil {
		return fmt.Errorf("asking the workload manager for its version: %w", err)
	}
	keys, err := loadKeySource(ctx, clientset, o.Config.Namespace, o.Config.NodeName)
	if err != nil {
		return err
	}
	if err := spool.Root(o.Config.Spool).Sweep(o.Config.NodeName); err != nil {
		return err
	}
	registry, err := loadRegistry(ctx, spool.Root(o.Config.Spool), translate.Names{Cluster: string(system.UID), Node: o.Config.NodeName}, time.Now())
	if err != nil {
		return err
	}
	node, err := newVirtualNode(ctx, clientset, o.Manager, NodeFacts{
		Config: o.Config, Manager: name, Version: o.Version, ClusterUID: system.UID,
	})
	if err != nil {
		return err
	}
	mgr, err := newManager(rc, o.Config)
	if err != nil {
		return err
	}
	watches := newOwnerWatches(mgr.GetCache(), mgr.GetRESTMapper())
	r := &Reconciler{
		config: o.Config, client: mgr.GetClient(), live: mgr.GetAPIReader(), clientset: clientset,
		manager: o.Manager, kind: o.Kind, recorder: newRecorder(ctx, clientset, o.Config.NodeName),
		registry: registry,
		owners:   newOwners(mgr.GetClient(), mgr.GetAPIReader(), registry.gangOf, watches.ensure),
		jobs:     &jobTable{manager: o.Manager, interval: o.Config.JobInterval.Duration},
		statuses: &statusTable{registry: registry, interval: o.Config.SpoolInterval.Duration, slots: map[string][]slotReport{}},
		writes:   newWrites(mgr.GetClient()),
		keys:     keys, node: node.scheduled,
		site: func() siteView { return newSiteView(o.Config, node.stock()) },
	}
	// Before any gang is looked at: what is not read yet would look like silence.
	for _, a := range registry.live() {
		r.statuses.scan(ctx, a)
	}
	if err := r.setup(mgr, watches); err != nil {
		return err
	}
	server, err := kubelet.New(ctx, kubelet.Config{
		Address: o.Config.Kubelet.Address, Port: o.Config.Kubelet.Port, NodeName: o.Config.NodeName,
		CertFile: o.Config.Kubelet.CertFile, KeyFile: o.Config.Kubelet.KeyFile, ClientCAFile: o.Config.Kubelet.ClientCAFile,
	}, clientset, &kubeletPods{reader: mgr.GetClient(), registry: registry, keys: keys})
	if err != nil {
		return err
	}
	runnables := []manager.RunnableFunc{
		server.Run,
		node.run,
		func(ctx context.Context) error { return r.jobs.run(ctx, r.listed(ctx, node)) },
		func(ctx context.Context) error { return r.statuses.run(ctx, r.look) },
	}
	if inside, ok := o.Manager.(interface{ Run(context.Context) error }); ok {
		runnables = append(runnables, inside.Run) // a workload manager that lives in this process
	}
	for _, run := range runnables {
		if err := mgr.Add(run); err != nil {
			return fmt.Errorf("preparing the virtual node: %w", err)
		}
	}
	log.Info("the virtual node starts", "node", o.Config.NodeName, "workloadManager", name, "spool", o.Config.Spool, "allocations", len(registry.live()))
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the virtual node: %w", err)
	}
	return nil
}

// look has a gang looked at.
func (r *Reconciler) look(key string) { r.wake.add(Request{Gang: key}) }

// listed is called after each listing: the gangs whose jobs have changed are
// looked at, and so are those whose job was expected and not seen.
func (r *Reconciler) listed(ctx context.Context, node *virtualNode) func(changed []string, err error) {
	return func(changed []string, err error) {
		node.heard(err)
		if err != nil {
			return
		}
		names := make(map[string]bool, len(changed))
		for _, name := range changed {
			names[name] = true
		}
		r.cancelLate(ctx)
		for _, a := range r.registry.live() {
			jobs, _ := r.jobs.named(a.name())
			if names[a.name()] || len(jobs) == 0 {
				r.look(a.gang.Key)
			}
		}
	}
}

func newManager(rc *rest.Config, c Config) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), jobset.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering the API types: %w", err)
	}
	metrics := c.MetricsAddress
	if metrics == "" {
		metrics = "0" // none
	}
	mgr, err := ctrl.NewManager(rc, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: metrics},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", c.NodeName)},
		}},
		// What pods refer to is asked for by name: no watch, no list. Owners whose
		// types are not known here are watched all the same.
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}}, Unstructured: true,
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller manager: %w", err)
	}
	return mgr, errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
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
		MaxConcurrentReconciles: workers,
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
