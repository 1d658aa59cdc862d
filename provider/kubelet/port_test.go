package kubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert: cert, key: key, pem: certPEM(der)}
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// sign makes a certificate of a public key, for servers on 127.0.0.1 and for
// clients.
func (a *authority) sign(t *testing.T, key any, name string, lifetime time.Duration) []byte {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now(), NotAfter: time.Now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.cert, key, a.key)
	require.NoError(t, err)
	return certPEM(der)
}

// pair is a certificate of a new key.
func (a *authority) pair(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return a.sign(t, private.Public(), name, time.Hour), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func (a *authority) client(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	cert, key := a.pair(t, name)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	return &pair
}

// port is a node's port that runs, with an API server that knows tokens (a
// token is the word "token-" and its user's name) and rights.
type port struct {
	t         *testing.T
	authority *authority
	dir       string
	address   string
	// rights are those of users, each "user verb subresource".
	rights sync.Map
}

func (p *port) allow(right string) { p.rights.Store(right, true) }

func (p *port) deny(right string) { p.rights.Delete(right) }

const testNode = "hpc"

// startPort serves a table of routes whose handlers only say that they were
// reached.
func startPort(t *testing.T, table []Route) *port {
	t.Helper()
	p := &port{t: t, authority: newAuthority(t), dir: t.TempDir()}
	ca := p.write("ca.crt", p.authority.pem)
	cert, key := p.authority.pair(t, "serving")
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: p.startReviews(), QPS: -1})
	require.NoError(t, err)
	who, err := newAccess(t.Context(), testNode, ca, clientset)
	require.NoError(t, err)
	certificates, err := newFileCertificate(t.Context(), p.write("serving.crt", cert), p.write("serving.key", key))
	require.NoError(t, err)
	for i := range table {
		table[i].handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	}
	p.address = serveTable(t, &Server{handler: mux(table, who), certificates: certificates})
	return p
}

// startReviews runs the part of an API server that answers about callers.
func (p *port) startReviews() string {
	answer := func(w http.ResponseWriter, r *http.Request, review any, decide func()) {
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		decide()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}
	m := http.NewServeMux()
	m.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		answer(w, r, &review, func() {
			review.Status.User.Username, review.Status.Authenticated = strings.CutPrefix(review.Spec.Token, "token-")
		})
	})
	m.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		answer(w, r, &review, func() {
			what := review.Spec.ResourceAttributes
			_, has := p.rights.Load(review.Spec.User + " " + what.Verb + " " + what.Subresource)
			review.Status.Allowed = has && what.Resource == "nodes" && what.Name == testNode
		})
	})
	server := httptest.NewServer(m)
	p.t.Cleanup(server.Close)
	return server.URL
}

// serveTable runs a server until the test ends.
func serveTable(t *testing.T, s *Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	return listener.Addr().String()
}

func (p *port) write(name string, data []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	require.NoError(p.t, os.WriteFile(path+".new", data, 0o600))
	require.NoError(p.t, os.Rename(path+".new", path))
	return path
}

// tls is the client's side of a connection to the port.
func (p *port) tls(client *tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.authority.pem)
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if client != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return client, nil }
	}
	return config
}

// ask makes one request and returns the answer's status.
func (p *port) ask(method, path, token string, client *tls.Certificate) int {
	p.t.Helper()
	transport := &http.Transport{TLSClientConfig: p.tls(client)}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(p.t.Context(), method, "https://"+p.address+path, nil)
	require.NoError(p.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(request)
	require.NoError(p.t, err)
	_ = response.Body.Close()
	return response.StatusCode
}
