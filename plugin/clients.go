package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/plugin/gangs"
)

// The rate of calls to the API server, per second: kubectl's own. A gang of a thousand pods
// has a thousand logs.
const (
	apiQPS   = 50
	apiBurst = 300
)

// connection says how the API server is reached: kubectl's own flags, from client-go.
type connection struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func (c *connection) bind(flags *pflag.FlagSet) {
	c.rules = clientcmd.NewDefaultClientConfigLoadingRules()
	flags.StringVar(&c.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "Path to the kubeconfig file")
	clientcmd.BindOverrideFlags(&c.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
}

func (c *connection) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
}

// clients are how the API server is spoken to, as one user.
type clients struct {
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	rest      *rest.Config
	namespace string // the one that is meant where none is named
	// summary is a node's /stats/summary, through the API server.
	summary func(ctx context.Context, node string) ([]byte, error)
}

func (c *connection) connect() (*clients, error) {
	config := c.config()
	namespace, _, err := config.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	r, err := config.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	r.QPS, r.Burst, r.UserAgent = apiQPS, apiBurst, "kubectl-gangline"
	kube, err := kubernetes.NewForConfig(r)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	objects, err := dynamic.NewForConfig(r)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return &clients{
		kube: kube, dynamic: objects, rest: r, namespace: namespace,
		summary: func(ctx context.Context, node string) ([]byte, error) {
			return kube.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary").DoRaw(ctx)
		},
	}, nil
}

// Open implements follow.Opener.
func (c *clients) Open(ctx context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return c.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).Stream(ctx)
}

// pods are those of a namespace, "" for all.
func (c *clients) pods(ctx context.Context, namespace, selector string) ([]*corev1.Pod, error) {
	list, err := c.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, explained(err, "list", "pods", namespace)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// gangs are those of a namespace, "" for all.
func (c *clients) gangs(ctx context.Context, namespace, selector string) ([]gangs.Gang, error) {
	pods, err := c.pods(ctx, namespace, selector)
	all := gangs.Group(pods)
	c.nameTrainJobs(ctx, namespace, all)
	return all, err
}

// nameTrainJobs calls gangs of JobSets by their TrainJobs, which bear the same names. A user
// who may not list those sees the JobSets.
func (c *clients) nameTrainJobs(ctx context.Context, namespace string, all []gangs.Gang) {
	if !slices.ContainsFunc(all, func(g gangs.Gang) bool { return g.Kind == "JobSet" }) {
		return
	}
	list, err := c.dynamic.Resource(trainJobs).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	known := map[string]bool{}
	for _, o := range list.Items {
		known[o.GetNamespace()+"/"+o.GetName()] = true
	}
	for i, g := range all {
		if g.Kind == "JobSet" && known[g.Namespace+"/"+g.Name] {
			all[i].Kind = "TrainJob"
		}
	}
}

var (
	jobSets   = jobset.SchemeGroupVersion.WithResource("jobsets")
	trainJobs = schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "trainjobs"}
)

// get reads an object into v.
func (c *clients) get(ctx context.Context, of schema.GroupVersionResource, namespace, name string, v any) error {
	found, err := c.dynamic.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return explained(err, "get", of.Resource, namespace)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, v); err != nil {
		return fmt.Errorf("reading %s %s/%s: %w", of.Resource, namespace, name, err)
	}
	return nil
}

// names are those of the objects of a kind.
func (c *clients) names(ctx context.Context, of schema.GroupVersionResource, namespace string) []string {
	list, err := c.dynamic.Resource(of).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // the kind is not installed, or may not be read: there is nothing to complete
	}
	var names []string
	for _, o := range list.Items {
		names = append(names, o.GetName())
	}
	return names
}
