package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/go-logr/logr"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	typedcertificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/util/certificate"
)

// certificates are where the serving certificate comes from.
type certificates interface {
	// current is the one to serve with, nil while there is none.
	current() *tls.Certificate
	// run keeps it current until the context ends.
	run(ctx context.Context)
}

// errNoCertificate is what those hear in this process who knock too early.
var errNoCertificate = errors.New("there is no serving certificate yet: its request waits for approval")

// serve answers a handshake.
func serve(from certificates) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if now := from.current(); now != nil {
			return now, nil
		}
		return nil, errNoCertificate
	}
}

// fileCertificate is a certificate and its key in files. They are read again
// when they change; what is no pair is not served.
type fileCertificate struct {
	content *dynamiccertificates.DynamicCertKeyPairContent
	pair    atomic.Pointer[tls.Certificate]
	log     logr.Logger
}

func newFileCertificate(ctx context.Context, certFile, keyFile string) (*fileCertificate, error) {
	content, err := dynamiccertificates.NewDynamicServingContentFromFiles("serving", certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the node's serving certificate: %w", err)
	}
	f := &fileCertificate{content: content, log: logr.FromContextOrDiscard(ctx)}
	f.Enqueue()
	content.AddListener(f)
	return f, nil
}

// Enqueue is called when the files have changed.
func (f *fileCertificate) Enqueue() {
	pair, err := tls.X509KeyPair(f.content.CurrentCertKeyContent())
	if err != nil {
		f.log.Error(err, "the new serving certificate cannot be used; the old one stays")
		return
	}
	f.pair.Store(&pair)
}

func (f *fileCertificate) current() *tls.Certificate { return f.pair.Load() }

func (f *fileCertificate) run(ctx context.Context) { f.content.Run(ctx, 1) }

// pairName is what the files of a certificate are called that the cluster has signed.
const pairName = "gangline-node-serving"

// CertificateFile is where a directory has the certificate that the cluster has signed, and
// its key.
func CertificateFile(dir string) string { return filepath.Join(dir, pairName+"-current.pem") }

// RequestedCertificate is asked for by a CertificateSigningRequest of the signer
// kubernetes.io/kubelet-serving, and again before it ends. It is kept in a
// directory, so a restart does not ask anew. Somebody must approve each request:
// Kubernetes itself approves none of this signer.
type RequestedCertificate struct {
	manager certificate.Manager
}

// Request asks for a node's serving certificate before anybody serves with it, as a
// process does that stands by, and keeps it current until the context ends. Of the
// configuration it reads NodeName, Address, CertDir and Recorder.
func Request(ctx context.Context, c Config, clientset kubernetes.Interface) (*RequestedCertificate, error) {
	requested, err := newRequestedCertificate(ctx, c, clientset)
	if err != nil {
		return nil, err
	}
	go requested.run(ctx)
	return requested, nil
}

// keptCertificate is one that somebody else keeps current.
type keptCertificate struct{ *RequestedCertificate }

func (keptCertificate) run(context.Context) {}

func newRequestedCertificate(ctx context.Context, c Config, clientset kubernetes.Interface) (*RequestedCertificate, error) {
	if err := os.MkdirAll(c.CertDir, 0o700); err != nil {
		return nil, fmt.Errorf("preparing kubelet.certDir for the serving certificate: %w; make the directory for the node's user, or name another one", err)
	}
	store, err := certificate.NewFileStore(pairName, c.CertDir, c.CertDir, "", "")
	if err != nil {
		return nil, fmt.Errorf("preparing the serving certificate's directory: %w", err)
	}
	asking := askingClient{Interface: clientset, asked: func(name string) {
		logr.FromContextOrDiscard(ctx).Info("the serving certificate waits for approval; until then logs, exec and metrics do not work",
			"request", name, "cure", "kubectl certificate approve "+name)
		c.Recorder.Eventf(nodeReference(c.NodeName), corev1.EventTypeWarning, "ServingCertificateRequested",
			"The node's serving certificate waits for approval: kubectl certificate approve %s", name)
	}}
	signed := tellingStore{Store: store, updated: func(now *tls.Certificate) {
		logr.FromContextOrDiscard(ctx).Info("the serving certificate has been approved and signed", "until", now.Leaf.NotAfter)
	}}
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn:      func(*tls.Certificate) (kubernetes.Interface, error) { return asking, nil },
		Template:         certificateRequest(c),
		SignerName:       certificatesv1.KubeletServingSignerName,
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: signed,
		Ctx:              &ctx,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the serving certificate's requests: %w", err)
	}
	return &RequestedCertificate{manager: manager}, nil
}

// certificateRequest is what the signer kubernetes.io/kubelet-serving takes. The
// address is all that callers know the node by: its name is in no DNS.
func certificateRequest(c Config) *x509.CertificateRequest {
	request := &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: "system:node:" + c.NodeName, Organization: []string{"system:nodes"},
	}}
	if ip := net.ParseIP(c.Address); ip != nil {
		request.IPAddresses = []net.IP{ip}
	} else {
		request.DNSNames = []string{c.Address}
	}
	return request
}

func (r *RequestedCertificate) current() *tls.Certificate { return r.manager.Current() }

func (r *RequestedCertificate) run(ctx context.Context) {
	r.manager.Start()
	<-ctx.Done()
	r.manager.Stop()
}

// nodeReference is the node in Events, as kubelet names itself.
func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}
}

// tellingStore tells of certificates that have come.
type tellingStore struct {
	certificate.Store
	updated func(*tls.Certificate)
}

// Update implements certificate.Store.
func (s tellingStore) Update(cert, key []byte) (*tls.Certificate, error) {
	now, err := s.Store.Update(cert, key)
	if err == nil {
		s.updated(now)
	}
	return now, err
}

// askingClient tells the names of the requests that are made with it.
type askingClient struct {
	kubernetes.Interface
	asked func(name string)
}

func (c askingClient) CertificatesV1() typedcertificatesv1.CertificatesV1Interface {
	return askingCertificates{c.Interface.CertificatesV1(), c.asked}
}

type askingCertificates struct {
	typedcertificatesv1.CertificatesV1Interface
	asked func(name string)
}

func (c askingCertificates) CertificateSigningRequests() typedcertificatesv1.CertificateSigningRequestInterface {
	return askingRequests{c.CertificatesV1Interface.CertificateSigningRequests(), c.asked}
}

type askingRequests struct {
	typedcertificatesv1.CertificateSigningRequestInterface
	asked func(name string)
}

func (c askingRequests) Create(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, o metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	made, err := c.CertificateSigningRequestInterface.Create(ctx, csr, o)
	if err == nil {
		c.asked(made.Name)
	}
	return made, err
}

// newCertificates chooses by what is configured.
func newCertificates(ctx context.Context, c Config, clientset kubernetes.Interface) (certificates, error) {
	if c.Requested != nil {
		return keptCertificate{c.Requested}, nil
	}
	if c.CertDir != "" {
		return newRequestedCertificate(ctx, c, clientset)
	}
	return newFileCertificate(ctx, c.CertFile, c.KeyFile)
}
