package manager

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/config"
	"github.com/gangline/gangline/test/harness"
)

// patience is how long anything here may take on a busy machine.
const patience = time.Minute

// world is a real API server and a controller that has no more rights than its
// ServiceAccount.
type world struct {
	control *harness.ControlPlane
	client  client.Client // the administrator's
	log     *lockedBuffer

	webhook, health, metrics, status int
	stop                             context.CancelFunc
	ended                            chan error
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.WriteString(line + "\n")
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func start(t *testing.T) *world {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	w := &world{log: &lockedBuffer{}, ended: make(chan error, 1)}
	w.control, err = harness.StartControlPlane(t.Context(), filepath.Join(root, "bin"), t.TempDir(), t.Output())
	require.NoError(t, err, "make devcluster builds the control plane")
	t.Cleanup(func() { assert.NoError(t, w.control.Stop(context.Background())) })
	w.kubectl(t, "", "create", "-f", charts("gangline", "crds"))
	w.kubectl(t, "", "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
	rights := charts("manifests", "controller")
	w.kubectl(t, "", "create", "-f", filepath.Join(rights, "namespace.yaml"), "-f", filepath.Join(rights, "rbac.yaml"), "-f", filepath.Join(rights, "users.yaml"))
	restConfig, err := clientcmd.BuildConfigFromFlags("", w.control.Kubeconfig())
	require.NoError(t, err)
	restConfig.QPS = -1
	scheme, err := newScheme()
	require.NoError(t, err)
	w.client, err = client.New(restConfig, client.Options{Scheme: scheme})
	require.NoError(t, err)
	w.run(t, restConfig)
	return w
}

// run starts the controller and waits until it is ready.
func (w *world) run(t *testing.T, administrator *rest.Config) {
	t.Helper()
	for _, port := range []*int{&w.webhook, &w.health, &w.metrics, &w.status} {
		*port = freePort(t)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
webhook: {host: localhost, port: %d}
health: {healthProbeBindAddress: "127.0.0.1:%d", readinessEndpointName: ready, livenessEndpointName: live}
metrics: {bindAddress: "127.0.0.1:%d"}
statusServer: {port: %d}
featureGates: {TrainJobStatus: true}
tls: {minVersion: "1.3"}
`, w.webhook, w.health, w.metrics, w.status), 0o600))
	c, err := config.Load(file, "")
	require.NoError(t, err)
	manifest, err := WebhookManifest(c, DefaultNamespace, fmt.Sprintf("https://localhost:%d", w.webhook))
	require.NoError(t, err)
	w.kubectl(t, string(manifest), "create", "-f", "-")

	log := funcr.New(func(prefix, args string) { w.log.add(prefix + " " + args) }, funcr.Options{})
	ctrl.SetLogger(log)
	klog.SetLogger(log) // client-go's, which tells of watches that are refused
	ctx, stop := context.WithCancel(logr.NewContext(t.Context(), log))
	w.stop = stop
	restConfig := rest.CopyConfig(administrator)
	restConfig.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kubeflow-system", "system:authenticated"},
	}
	certDir := filepath.Join(t.TempDir(), "certificates")
	ended := make(chan struct{})
	go func() {
		w.ended <- Run(ctx, Options{
			Config: c, REST: restConfig, Namespace: DefaultNamespace, CertDir: certDir, DNSNames: []string{"localhost"},
		})
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	eventually(t, "the controller is ready", func() error {
		select {
		case <-ended:
			require.FailNow(t, "the controller ended", w.log.String())
		default:
		}
		return w.probe(t, "ready")
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // it only showed the number
	return l.Addr().(*net.TCPAddr).Port
}

// eventually waits for check to have no error.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			require.FailNow(t, "waited in vain", "%s: %v", what, err)
		case <-ticker.C:
		}
	}
}

func (w *world) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := w.control.Kubectl(t.Context(), stdin, args...)
	require.NoError(t, err)
	return out
}

func (w *world) probe(t *testing.T, name string) error {
	code, body, err := get(t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/%s", w.health, name), "")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d: %s", code, body)
	}
	return err
}

func get(t *testing.T, c *http.Client, url, token string) (int, string, error) {
	t.Helper()
	return send(t, c, http.MethodGet, url, token, nil)
}

func send(t *testing.T, c *http.Client, method, url, token string, body io.Reader) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// authority is the one that the API server has been told to trust.
func (w *world) authority(t *testing.T) []byte {
	t.Helper()
	c := &admissionv1.ValidatingWebhookConfiguration{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: ValidatingConfiguration}, c))
	ca := c.Webhooks[0].ClientConfig.CABundle
	for _, webhook := range c.Webhooks {
		assert.Equal(t, ca, webhook.ClientConfig.CABundle)
	}
	return ca
}

// trusting is a client that trusts an authority for the Service's name, and
// reaches it at a port of this machine.
func trusting(t *testing.T, authority []byte, port int) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority), "%s", authority)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "kubeflow-trainer-controller-manager.kubeflow-system.svc", MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("localhost:%d", port))
		},
		DisableKeepAlives: true,
	}
	return &http.Client{Transport: transport}
}

// token is one of a ServiceAccount's.
func (w *world) token(t *testing.T, namespace, account string, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: ptr.To[int64](600),
	}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	require.NoError(t, w.client.SubResource("token").Create(t.Context(), of, request))
	return request.Status.Token
}
