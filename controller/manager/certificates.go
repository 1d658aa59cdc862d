package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// manageCertificates prepares that certificates are made and renewed, unless
// somebody else provides them. The channel is closed once they are in the
// certificates' directory and the webhook configurations have the authority's.
func (p *process) manageCertificates(ctx context.Context) (<-chan struct{}, error) {
	ready := make(chan struct{})
	if !*p.Config.CertManagement.Enable {
		close(ready)
		return ready, nil
	}
	secret := client.ObjectKey{Namespace: p.Namespace, Name: p.Config.CertManagement.WebhookSecretName}
	if err := p.ensureSecret(ctx, secret); err != nil {
		return nil, err
	}
	if err := addSecretToFiles(p.mgr, secret, p.CertDir); err != nil {
		return nil, err
	}
	return ready, rotator.AddRotator(p.mgr, &rotator.CertRotator{
		SecretKey:      secret,
		CertDir:        p.CertDir,
		CAName:         "kubeflow-trainer-ca",
		CAOrganization: "kubeflow-trainer",
		DNSName:        p.serviceHost(),
		ExtraDNSNames:  p.DNSNames,
		IsReady:        ready,
		Webhooks: []rotator.WebhookInfo{
			{Type: rotator.Mutating, Name: MutatingConfiguration},
			{Type: rotator.Validating, Name: ValidatingConfiguration},
		},
		// Every replica serves webhooks, so every replica needs them.
		RequireLeaderElection: false,
	})
}

// ensureSecret makes the Secret that the rotator fills.
func (p *process) ensureSecret(ctx context.Context, key client.ObjectKey) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := p.mgr.GetClient().Create(ctx, secret, client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the Secret %s: %w", key, err)
	}
	return nil
}

// secretToFiles writes the certificates' Secret to their directory. A mounted
// Secret would do the same, but a kubelet takes up to minutes, at the first start
// and at each renewal; and a process outside the cluster has no kubelet.
type secretToFiles struct {
	live client.Reader
	key  client.ObjectKey
	dir  string
}

func addSecretToFiles(mgr ctrl.Manager, key client.ObjectKey, dir string) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("certificates").
		For(&corev1.Secret{}, builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(
			func(object client.Object) bool { return client.ObjectKeyFromObject(object) == key }))).
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false)}).
		Complete(&secretToFiles{live: mgr.GetAPIReader(), key: key, dir: dir})
}

// Reconcile writes what the Secret has. One without a certificate is waited for.
func (s *secretToFiles) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	if err := s.live.Get(ctx, s.key, secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if len(secret.Data[corev1.TLSCertKey]) == 0 {
		return ctrl.Result{}, nil
	}
	err := writeTogether(s.dir, map[string][]byte{
		corev1.TLSCertKey:       secret.Data[corev1.TLSCertKey],
		corev1.TLSPrivateKeyKey: secret.Data[corev1.TLSPrivateKeyKey],
		authorityFile:           secret.Data[authorityFile],
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the certificates (their directory must be writable, such as an emptyDir): %w", err)
	}
	return ctrl.Result{}, nil
}

// authorityFile is the certificate authority's, in the Secret and the directory.
const authorityFile = "ca.crt"

// servingCertificate is what all servers show, and follows its files.
type servingCertificate struct {
	dir     string
	watcher atomic.Pointer[certwatcher.CertWatcher]
}

// load reads the files, which must be there.
func (c *servingCertificate) load(mgr ctrl.Manager) error {
	watcher, err := certwatcher.New(filepath.Join(c.dir, corev1.TLSCertKey), filepath.Join(c.dir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return fmt.Errorf("reading the serving certificate (without certManagement it must be provided as files in %s): %w", c.dir, err)
	}
	c.watcher.Store(watcher)
	return mgr.Add(watcher)
}

// get is a tls.Config's GetCertificate.
func (c *servingCertificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	watcher := c.watcher.Load()
	if watcher == nil {
		return nil, errors.New("there is no serving certificate yet")
	}
	return watcher.GetCertificate(hello)
}

// authority is the certificate authority of the certificate, as PEM.
func (c *servingCertificate) authority() ([]byte, error) {
	pem, err := os.ReadFile(filepath.Join(c.dir, authorityFile))
	if err == nil && len(pem) == 0 {
		err = errors.New(authorityFile + " is empty")
	}
	return pem, err
}
