package kubelet

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

func TestMain(m *testing.M) {
	// client-go's fake clientset has no streaming lists, and behind a wrapper
	// nobody can see that.
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", "false"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// serial is the number of the certificate that a server shows.
func serial(address string, authority *authority) (string, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.pem)
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // only looked at
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	p := startPort(t, Routes())
	first, err := serial(p.address, p.authority)
	require.NoError(t, err)
	// Between the two writes the files are no pair: the old one stays.
	cert, key := p.authority.pair(t, "serving")
	p.write("serving.crt", cert)
	during, err := serial(p.address, p.authority)
	require.NoError(t, err)
	assert.Equal(t, first, during)
	p.write("serving.key", key)
	assert.Eventually(t, func() bool {
		now, err := serial(p.address, p.authority)
		return err == nil && now != first
	}, time.Minute, 50*time.Millisecond, "the new certificate is served, without a restart")
}

func TestCertificateOfTheClientCAIsReadAgain(t *testing.T) {
	p := startPort(t, Routes())
	p.allow("monitor get healthz")
	other := newAuthority(t)
	client := other.client(t, "monitor")
	require.Equal(t, 401, p.ask("GET", "/healthz", "", client))
	p.write("ca.crt", append(p.authority.pem, other.pem...))
	assert.Eventually(t, func() bool { return p.ask("GET", "/healthz", "", client) == served }, time.Minute, 50*time.Millisecond)
}

// signer is an API server that answers certificate requests: with a
// certificate that lives as long as said, once somebody approves.
type signer struct {
	authority *authority
	clientset *fake.Clientset
	requests  chan *certificatesv1.CertificateSigningRequest
}

var csrs = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

func newSigner(t *testing.T) *signer {
	s := &signer{authority: newAuthority(t), clientset: fake.NewClientset(), requests: make(chan *certificatesv1.CertificateSigningRequest, 10)}
	var count atomic.Int32
	s.clientset.PrependReactor("create", "certificatesigningrequests", func(a clienttesting.Action) (bool, runtime.Object, error) {
		request := a.(clienttesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest).DeepCopy()
		n := count.Add(1)
		request.Name = fmt.Sprintf("csr-%d", n)
		// The fake lists all, whatever is asked for; an earlier one would be
		// taken for the later.
		_ = s.clientset.Tracker().Delete(csrs, "", fmt.Sprintf("csr-%d", n-1))
		request.UID = "u-" + request.UID
		if err := s.clientset.Tracker().Add(request); err != nil {
			return true, nil, err
		}
		s.requests <- request
		return true, request, nil
	})
	return s
}

func (s *signer) approve(t *testing.T, request *certificatesv1.CertificateSigningRequest, lifetime time.Duration) {
	t.Helper()
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	signed := request.DeepCopy()
	signed.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	signed.Status.Certificate = s.authority.sign(t, parsed.PublicKey, parsed.Subject.CommonName, lifetime)
	require.NoError(t, s.clientset.Tracker().Update(csrs, signed, ""))
}

func (s *signer) next(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	select {
	case r := <-s.requests:
		return r
	case <-time.After(time.Minute):
		require.Fail(t, "no certificate was asked for")
		return nil
	}
}

func TestCertificateIsRequestedServedAndRenewed(t *testing.T) {
	s := newSigner(t)
	recorder := record.NewFakeRecorder(10)
	config := Config{NodeName: "hpc", Address: "127.0.0.1", CertDir: t.TempDir() + "/pki", Recorder: recorder}
	certificates, err := newRequestedCertificate(t.Context(), config, s.clientset)
	require.NoError(t, err)
	address := serveTable(t, &Server{handler: mux(nil, &access{}), certificates: certificates})

	request := s.next(t)
	assert.Contains(t, <-recorder.Events, "kubectl certificate approve csr-1", "people are told what to do")
	_, err = serial(address, s.authority)
	assert.Error(t, err, "nothing is served before somebody approves")

	s.approve(t, request, 3*time.Second)
	var first string
	require.Eventually(t, func() bool { first, err = serial(address, s.authority); return err == nil }, time.Minute, 20*time.Millisecond)
	renewal := s.next(t)
	s.approve(t, renewal, time.Hour)
	require.Eventually(t, func() bool {
		now, err := serial(address, s.authority)
		return err == nil && now != first
	}, time.Minute, 20*time.Millisecond, "the certificate is renewed before it ends")

	// A restart goes on with what it has.
	again, err := newRequestedCertificate(t.Context(), config, s.clientset)
	require.NoError(t, err)
	assert.NotNil(t, again.current())
	assert.Empty(t, s.requests)
	info, err := os.Stat(config.CertDir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "its key is nobody else's")
}

func TestCertificateRequestIsOneThatTheSignerTakes(t *testing.T) {
	s := newSigner(t)
	certificates, err := newRequestedCertificate(t.Context(), Config{
		NodeName: "hpc", Address: "10.0.0.5", CertDir: t.TempDir(), Recorder: record.NewFakeRecorder(10),
	}, s.clientset)
	require.NoError(t, err)
	go certificates.run(t.Context())
	request := s.next(t)
	block, _ := pem.Decode(request.Spec.Request)
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)
	// https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#kubernetes-signers
	assert.Equal(t, certificatesv1.KubeletServingSignerName, request.Spec.SignerName)
	assert.Equal(t, "system:node:hpc", parsed.Subject.CommonName)
	assert.Equal(t, []string{"system:nodes"}, parsed.Subject.Organization)
	assert.Equal(t, "10.0.0.5", parsed.IPAddresses[0].String())
	assert.Empty(t, strings.Join(parsed.EmailAddresses, ""))
	assert.Empty(t, parsed.URIs)
	assert.ElementsMatch(t, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}, request.Spec.Usages)
}

func TestCertificateOfWhoStandsByIsThereAtOnce(t *testing.T) {
	s := newSigner(t)
	config := Config{NodeName: "hpc", Address: "127.0.0.1", CertDir: t.TempDir() + "/pki", Recorder: record.NewFakeRecorder(10)}
	lines := make(chan string, 10)
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { lines <- args }, funcr.Options{}))
	requested, err := Request(ctx, config, s.clientset)
	require.NoError(t, err)
	request := s.next(t)
	assert.Contains(t, <-lines, "waits for approval")
	s.approve(t, request, time.Hour)
	require.Eventually(t, func() bool { return requested.current() != nil }, time.Minute, 20*time.Millisecond)
	assert.Contains(t, <-lines, "has been approved and signed", "people are told that there is nothing left to do")
	assert.FileExists(t, CertificateFile(config.CertDir))

	config.Requested = requested
	certificates, err := newCertificates(t.Context(), config, s.clientset)
	require.NoError(t, err)
	_, err = serial(serveTable(t, &Server{handler: mux(nil, &access{}), certificates: certificates}), s.authority)
	require.NoError(t, err)
	assert.Empty(t, s.requests, "who leads then does not ask again")
}
