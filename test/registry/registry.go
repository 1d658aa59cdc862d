package registry

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// Registry is one that runs until the end of a test.
type Registry struct {
	t      testing.TB
	server *httptest.Server
	listen string
	tls    bool
	tokens bool

	mu                   sync.Mutex
	user, password       string
	blobs                map[string]int
	manifests            int
	fail                 func(*http.Request) int
	redirect             string
	slow                 time.Duration
	breakAfter, breaking int
}

// Option changes a registry.
type Option func(*Registry)

// Listen has it listen at an address, such as "10.77.0.1:0"; by default on the loopback.
func Listen(address string) Option { return func(r *Registry) { r.listen = address } }

// TLS has it speak HTTPS, with a certificate that only CAFile makes trusted.
func TLS() Option { return func(r *Registry) { r.tls = true } }

// Login has it ask for a name and a password for everything.
func Login(user, password string) Option {
	return func(r *Registry) { r.user, r.password = user, password }
}

// Tokens has it take the name and the password for a token, as most registries do.
func Tokens() Option { return func(r *Registry) { r.tokens = true } }

// Start starts a registry.
func Start(t testing.TB, options ...Option) *Registry {
	t.Helper()
	r := &Registry{t: t, listen: "127.0.0.1:0", blobs: map[string]int{}}
	for _, o := range options {
		o(r)
	}
	quiet := server.Logger(log.New(io.Discard, "", 0))
	r.server = httptest.NewUnstartedServer(r.between(server.New(quiet)))
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust us
	listener, err := net.Listen("tcp", r.listen)
	require.NoError(t, err)
	require.NoError(t, r.server.Listener.Close())
	r.server.Listener = listener
	if r.tls {
		r.server.StartTLS()
	} else {
		r.server.Start()
	}
	t.Cleanup(r.server.Close)
	return r
}

// Host is its address: host:port.
func (r *Registry) Host() string { return r.server.Listener.Addr().String() }

// Image is the name of an image in it: "team/app:1" becomes host:port/team/app:1.
func (r *Registry) Image(name string) string { return r.Host() + "/" + name }

// CAFile writes the certificate that it is to be trusted by.
func (r *Registry) CAFile() string {
	path := filepath.Join(r.t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw}
	require.NoError(r.t, os.WriteFile(path, pem.EncodeToMemory(block), 0o644))
	return path
}

// DockerConfig is a .dockerconfigjson that opens it.
func (r *Registry) DockerConfig() []byte { return DockerConfig(r.Host(), r.user, r.password) }

// DockerConfig is a .dockerconfigjson for a registry.
func DockerConfig(host, user, password string) []byte {
	return []byte(`{"auths":{"` + host + `":{"username":"` + user + `","password":"` + password + `"}}}`)
}

// Push puts an image (v1.Image or v1.ImageIndex) in, and returns its digest.
func (r *Registry) Push(as string, image remote.Taggable) string {
	r.t.Helper()
	ref, err := name.ParseReference(r.Image(as), name.Insecure)
	require.NoError(r.t, err)
	options := []remote.Option{remote.WithTransport(r.transport()), remote.WithContext(r.t.Context())}
	if r.user != "" {
		options = append(options, remote.WithAuth(&authn.Basic{Username: r.user, Password: r.password}))
	}
	switch i := image.(type) {
	case v1.ImageIndex:
		require.NoError(r.t, remote.WriteIndex(ref, i, options...))
	case v1.Image:
		require.NoError(r.t, remote.Write(ref, i, options...))
	default:
		require.Fail(r.t, "this is no image and no index")
	}
	d, err := remote.Head(ref, options...)
	require.NoError(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs, r.manifests = map[string]int{}, 0
	return d.Digest.String()
}

func (r *Registry) transport() http.RoundTripper {
	if !r.tls {
		return http.DefaultTransport
	}
	return r.server.Client().Transport
}

// Blobs is how often each blob was asked for since the last Push, by its digest.
func (r *Registry) Blobs() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	copied := map[string]int{}
	for digest, n := range r.blobs {
		copied[digest] = n
	}
	return copied
}

// Manifests is how often a manifest was downloaded since the last Push; HEAD does not count.
func (r *Registry) Manifests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.manifests
}

// Fail has requests answered with the status that the function returns, unless it is 0.
func (r *Registry) Fail(status func(*http.Request) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = status
}

// Redirect has downloads of blobs sent to another registry's host.
func (r *Registry) Redirect(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.redirect = host
}

// Slow has each blob take that long before it comes.
func (r *Registry) Slow(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = d
}

// Break has the next so many downloads of blobs end after some bytes.
func (r *Registry) Break(downloads, after int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breaking, r.breakAfter = downloads, after
}

// Stop ends it at once: nothing listens there any more.
func (r *Registry) Stop() { r.server.Close() }

// between is what stands before the registry.
func (r *Registry) between(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		blob := q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/blobs/sha256:")
		r.mu.Lock()
		if blob {
			r.blobs[q.URL.Path[strings.Index(q.URL.Path, "sha256:"):]]++
		}
		if q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/manifests/") {
			r.manifests++
		}
		fail, slow, redirect, after := r.fail, r.slow, r.redirect, 0
		if blob && r.breaking > 0 && q.Header.Get("Range") == "" {
			r.breaking--
			after = r.breakAfter
		}
		r.mu.Unlock()
		if !r.letIn(w, q) {
			return
		}
		if fail != nil {
			if status := fail(q); status != 0 {
				http.Error(w, `{"errors":[{"code":"UNKNOWN","message":"the test wants it so"}]}`, status)
				return
			}
		}
		if blob && redirect != "" {
			http.Redirect(w, q, "http://"+redirect+q.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		if blob && slow > 0 {
			select {
			case <-time.After(slow):
			case <-q.Context().Done():
			}
		}
		if after > 0 {
			w = &breaking{w, after}
		}
		next.ServeHTTP(w, q)
	})
}

// token is what Tokens gives.
const token = "a-token-of-the-test"

// letIn answers those who do not say who they are, or ask for a token.
func (r *Registry) letIn(w http.ResponseWriter, q *http.Request) bool {
	if r.user == "" {
		return true
	}
	user, password, ok := q.BasicAuth()
	known := ok && user == r.user && password == r.password
	challenge := `Basic realm="test"`
	if r.tokens {
		if known && q.URL.Path == "/token" {
			fmt.Fprintf(w, `{"token":%q}`, token)
			return false
		}
		known = q.Header.Get("Authorization") == "Bearer "+token
		challenge = fmt.Sprintf("Bearer realm=%q,service=\"test\"", "http://"+r.Host()+"/token")
	}
	if !known {
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
	}
	return known
}

// breaking is an answer that breaks off.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left <= 0 {
		panic(http.ErrAbortHandler) // net/http's own way to break a connection off
	}
	n, err := b.ResponseWriter.Write(p[:min(len(p), b.left)])
	b.left -= n
	if f, ok := b.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	if err == nil && n < len(p) {
		panic(http.ErrAbortHandler)
	}
	return n, err
}
