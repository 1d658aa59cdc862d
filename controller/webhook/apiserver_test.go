package webhook_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/gangline/gangline/controller/api/config/v1alpha1"
	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/manager"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/plugins"
	"github.com/gangline/gangline/controller/podcheck"
	"github.com/gangline/gangline/controller/webhook"
	"github.com/gangline/gangline/test/harness"
)

const (
	root = "../.."
	team = "team-a"
)

// world is a real API server that asks the webhooks of this process.
type world struct {
	client.Client // not cached
	warnings      *warnings
}

// startWorld starts the API server, the webhooks, and waits until the one asks
// the others.
func startWorld(t *testing.T) *world {
	t.Helper()
	control := startControlPlane(t)
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	require.NoError(t, err)

	w := &world{warnings: &warnings{}}
	quiet := rest.CopyConfig(config)
	quiet.WarningHandlerWithContext = w.warnings
	quiet.QPS = -1
	w.Client, err = client.New(quiet, client.Options{Scheme: scheme(t)})
	require.NoError(t, err)
	require.NoError(t, w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}))
	require.Eventually(t, func() bool {
		return w.List(t.Context(), &v1alpha1.TrainJobList{}) == nil &&
			w.List(t.Context(), &v1alpha1.TrainingRuntimeList{}) == nil &&
			w.List(t.Context(), &v1alpha1.ClusterTrainingRuntimeList{}) == nil
	}, time.Minute, 100*time.Millisecond, "the CRDs are not served")

	url, authority := serveWebhooks(t, config)
	for _, object := range manager.WebhookConfigurations(configv1alpha1.Configuration{}, "", url) {
		trust(object, authority)
		require.NoError(t, w.Create(t.Context(), object))
	}
	w.waitForWebhooks(t)
	return w
}

func startControlPlane(t *testing.T) *harness.ControlPlane {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	require.NoError(t, err)
	control, err := harness.StartControlPlane(ctx, bin, filepath.Join(t.TempDir(), "cluster"), t.Output())
	require.NoError(t, err, "make devcluster builds it")
	t.Cleanup(func() {
		stop, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, control.Stop(stop))
	})
	_, err = control.Kubectl(ctx, "", "apply", "--server-side", "-f", filepath.Join(root, "charts", "gangline", "crds"))
	require.NoError(t, err)
	return control
}

// serveWebhooks runs the webhooks in a manager of their own, and returns their
// base URL and the certificate to trust.
func serveWebhooks(t *testing.T, config *rest.Config) (url string, authority []byte) {
	t.Helper()
	authority, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(authority, key)
	require.NoError(t, err)
	port := freePort(t)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme(t),
		Logger:  testr.New(t),
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: "127.0.0.1", Port: port,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
			}},
		}),
	})
	require.NoError(t, err)
	require.NoError(t, webhook.Setup(mgr, pipeline.New(plugins.All(plugins.Options{Reader: mgr.GetClient()})...), podcheck.New(mgr.GetClient())))

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.True(t, mgr.GetCache().WaitForCacheSync(t.Context()))
	return "https://127.0.0.1:" + strconv.Itoa(port), authority
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // nothing was written
	return listener.Addr().(*net.TCPAddr).Port
}

func trust(configuration client.Object, authority []byte) {
	switch c := configuration.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = authority
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = authority
		}
	}
}

// waitForWebhooks tries until the API server has heard of both configurations.
func (w *world) waitForWebhooks(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		refused := parse(t, trainJob("probe", `{runtimeRef: {name: x, kind: Unknown}, runtimePatches: [{manager: a.io/b}]}`))
		err := w.Create(t.Context(), refused, client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "unsupported runtime")
	}, time.Minute, 100*time.Millisecond, "the validating webhooks are not asked")
	require.NoError(t, w.Create(t.Context(), parse(t, runtimeText("TrainingRuntime", "probe", "{}", ""))))
	require.Eventually(t, func() bool {
		stamped := parse(t, trainJob("probe", `{runtimeRef: {name: probe, kind: TrainingRuntime}, runtimePatches: [{manager: a.io/b}]}`))
		if err := w.Create(t.Context(), stamped, client.DryRunAll); err != nil {
			return false
		}
		patches, _, _ := unstructured.NestedSlice(stamped.Object, "spec", "runtimePatches")
		return len(patches) == 1 && patches[0].(map[string]any)["time"] != nil
	}, time.Minute, 100*time.Millisecond, "the mutating webhook is not asked")
}

// refused is the text of a 403.
func refused(t *testing.T, err error) string {
	t.Helper()
	require.Error(t, err)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	return err.Error()
}

// warnings are what the API server has warned of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

var _ rest.WarningHandlerWithContext = (*warnings)(nil)

// HandleWarningHeaderWithContext takes one warning.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, code int, _, text string) {
	if code != 299 || text == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, jobsetv1alpha2.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(s))
	}
	return s
}

// parse reads an object as it is, whatever its version.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object), text)
	return object
}

// parseFile reads all objects of a file in testdata.
func parseFile(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		objects = append(objects, parse(t, document))
	}
	return objects
}

func trainJob(name, spec string) string {
	return `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: ` + name + `, namespace: ` + team + `}
spec: ` + spec
}

// runtimeText is a runtime with one training job.
func runtimeText(kind, name, policy, labels string) string {
	namespace := ""
	if kind == "TrainingRuntime" {
		namespace = "namespace: " + team + ", "
	}
	return `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ` + kind + `
metadata: {name: ` + name + `, ` + namespace + `labels: {` + labels + `}}
spec:
  mlPolicy: ` + policy + `
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers: [{name: node, image: example.org/torch}, {name: sidecar, image: example.org/sidecar}]
`
}
