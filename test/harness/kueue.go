package harness

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// KueueNamespaceLabel is on the namespaces whose objects Kueue's admission sees. Others
// share its control plane.
const KueueNamespaceLabel = "gangline.dev/test-kueue"

// What Kueue's own manifests call it.
const (
	kueueNamespace = "kueue-system"
	kueueUser      = "system:serviceaccount:" + kueueNamespace + ":kueue-controller-manager"
	kueueSecret    = "kueue-webhook-server-cert"
)

// Kueue is a process of Kueue's manager, as its module builds it.
type Kueue struct {
	process
	control  *ControlPlane
	root     string
	webhooks string // the manifest of its webhook configurations

	webhookPort, healthPort int32
}

// StartKueue installs Kueue from its module's own manifests and starts its manager with
// its own rights. It is ready when it answers.
func StartKueue(ctx context.Context, control *ControlPlane, root, dir string) (*Kueue, error) {
	k := &Kueue{process: process{dir: dir, name: "kueue"}, control: control, root: root}
	if err := k.prepare(ctx); err != nil {
		return nil, fmt.Errorf("preparing Kueue: %w", err)
	}
	cmd := exec.Command(filepath.Join(root, "bin", k.name), "--config", k.configFile(), "--zap-log-level=2")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(k.dir, "credentials", "kubeconfig"))
	if err := k.start(cmd); err != nil {
		return nil, fmt.Errorf("%w (make kueue builds it)", err)
	}
	if err := k.waitReady(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", k.healthPort)); err != nil {
		return nil, errors.Join(err, k.Stop(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// Stop ends it and takes its webhooks away, for nobody would answer them. Doing so twice
// does no harm.
func (k *Kueue) Stop(ctx context.Context) error {
	_, err := k.control.Kubectl(ctx, k.webhooks, "delete", "--ignore-not-found", "-f", "-")
	return errors.Join(err, k.process.Stop())
}

func (k *Kueue) configFile() string { return filepath.Join(k.dir, "config.yaml") }
func (k *Kueue) certs() string      { return filepath.Join(k.dir, "certs") }

func (k *Kueue) prepare(ctx context.Context) (err error) {
	if err := os.MkdirAll(k.certs(), 0o755); err != nil {
		return err
	}
	for _, port := range []*int32{&k.webhookPort, &k.healthPort} {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	if err := k.writeConfig(); err != nil {
		return err
	}
	credentials := filepath.Join(k.dir, "credentials")
	if err := k.control.credentials(ctx, k.name, kueueUser, credentials, os.Getuid(), os.Getgid(), ""); err != nil {
		return err
	}
	secret, err := k.makeCertificates()
	if err != nil {
		return err
	}
	manifests, err := k.manifests(ctx)
	if err != nil {
		return err
	}
	_, err = k.control.Kubectl(ctx, manifests+"---\n"+secret, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// writeConfig writes what differs from Kueue's defaults. Without the visibility server
// it needs no port of an aggregated API.
func (k *Kueue) writeConfig() error {
	config := fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: %s
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %d, certDir: %s}
leaderElection: {leaderElect: false}
clientConnection: {qps: 300, burst: 500}
featureGates: {VisibilityOnDemand: false}
integrations:
  frameworks: [trainer.kubeflow.org/trainjob, jobset.x-k8s.io/jobset]
`, kueueNamespace, k.healthPort, k.webhookPort, k.certs())
	return os.WriteFile(k.configFile(), []byte(config), 0o644)
}

// makeCertificates makes what Kueue's own management of certificates would, in the same
// way, for one name more: localhost. Kueue keeps what is valid. The files stand for the
// Secret's volume.
func (k *Kueue) makeCertificates() (secret string, err error) {
	maker := &rotator.CertRotator{
		CAName: "kueue-ca", CAOrganization: "kueue", DNSName: "kueue-webhook-service." + kueueNamespace + ".svc",
		ExtraDNSNames: []string{"localhost"}, ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	from, until := time.Now().Add(-time.Hour), time.Now().AddDate(10, 0, 0)
	ca, err := maker.CreateCACert(from, until)
	if err != nil {
		return "", err
	}
	cert, key, err := maker.CreateCertPEM(ca, from, until)
	if err != nil {
		return "", err
	}
	files := map[string][]byte{"ca.crt": ca.CertPEM, "ca.key": ca.KeyPEM, "tls.crt": cert, "tls.key": key}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(k.certs(), name), data, 0o600); err != nil {
			return "", err
		}
	}
	manifest, err := yaml.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: kueueNamespace, Name: kueueSecret},
		Data:       files,
	})
	return string(manifest), err
}

// manifests are those of the module's config/default but for what runs in pods: CRDs,
// roles, and webhooks that are called on this machine.
func (k *Kueue) manifests(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue")
	list.Dir = filepath.Join(k.root, "test", "kueue")
	module, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("looking for Kueue's module (make kueue downloads it): %w", err)
	}
	rendered, err := k.control.Kubectl(ctx, "", "kustomize", filepath.Join(strings.TrimSpace(string(module)), "config", "default"))
	if err != nil {
		return "", err
	}
	var all, webhooks strings.Builder
	documents := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(object); errors.Is(err, io.EOF) {
			k.webhooks = webhooks.String()
			return all.String(), nil
		} else if err != nil {
			return "", fmt.Errorf("reading Kueue's manifests: %w", err)
		}
		if inPods[object.GetKind()] {
			continue
		}
		k.callHere(object.Object)
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "---\n%s", text)
		if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			fmt.Fprintf(&webhooks, "---\n%s", bytes.TrimSpace(text))
			webhooks.WriteString("\n")
		}
	}
}

// inPods are the kinds of Kueue's manifests that concern its Deployment.
var inPods = map[string]bool{"Deployment": true, "Service": true, "APIService": true, "ConfigMap": true, "Secret": true}

// callHere has the API server call webhooks and conversions by a URL in place of a
// Service, and the former for labelled namespaces only.
func (k *Kueue) callHere(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			k.callHere(v)
		}
	case map[string]any:
		if client, ok := value["clientConfig"].(map[string]any); ok {
			path, _, _ := unstructured.NestedString(client, "service", "path")
			value["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://localhost:%d%s", k.webhookPort, path)}
			if _, webhook := value["rules"]; webhook {
				value["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{KueueNamespaceLabel: "true"}}
			}
			return
		}
		for _, v := range value {
			k.callHere(v)
		}
	}
}
