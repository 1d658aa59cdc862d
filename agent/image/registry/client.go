package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/gangline/gangline/agent/image/keyring"
)

// Config is how the site reaches registries.
type Config struct {
	// Mirrors maps a registry's host to those that are asked before it.
	Mirrors map[string][]string `json:"mirrors,omitempty"`
	// Insecure are hosts that may be spoken to over HTTP or with any certificate.
	Insecure []string `json:"insecure,omitempty"`
	// CAFile has certificates to be trusted besides the system's.
	CAFile string `json:"caFile,omitempty"`
	// SiteCredentials is a .dockerconfigjson that counts for everybody.
	SiteCredentials []byte `json:"siteCredentials,omitempty"`
	// Credentials is a .dockerconfigjson of who asks.
	Credentials []byte `json:"credentials,omitempty"`
	// Platform is the machine's; a name with several images stands for that one.
	Platform v1.Platform `json:"platform"`
}

// Client speaks to registries for one caller.
type Client struct {
	config     Config
	own, site  *keyring.Keyring
	strict     http.RoundTripper
	permissive http.RoundTripper
}

// New makes a client.
func New(c Config) (*Client, error) {
	own, err := keyring.Parse(c.Credentials)
	if err != nil {
		return nil, fmt.Errorf("the pod's imagePullSecrets: %w", err)
	}
	site, err := keyring.Parse(c.SiteCredentials)
	if err != nil {
		return nil, fmt.Errorf("the site's credentialsFile: %w", err)
	}
	strict, err := newTransport(c.CAFile)
	if err != nil {
		return nil, err
	}
	permissive := strict.Clone()
	permissive.TLSClientConfig.InsecureSkipVerify = true
	return &Client{config: c, own: own, site: site, strict: strict, permissive: permissive}, nil
}

func newTransport(caFile string) (*http.Transport, error) {
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	t.ResponseHeaderTimeout = time.Minute
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the registries' caFile: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("there is no certificate in the registries' caFile %s", caFile)
	}
	t.TLSClientConfig.RootCAs = roots
	return t, nil
}

var errNotAllowed = errors.New("which is not allowed")

// RoundTrip keeps the promise that nothing goes over HTTP, or to a host that has not
// proved who it is, unless the site allows it. It sees redirects too.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.insecure(r.URL.Host) {
		return c.permissive.RoundTrip(r)
	}
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is asked for over %s, %w: the site's registries.insecure does not name it", r.URL.Host, r.URL.Scheme, errNotAllowed)
	}
	return c.strict.RoundTrip(r)
}

func (c *Client) insecure(host string) bool { return slices.Contains(c.config.Insecure, host) }

// session is one registry (or a mirror of it), spoken to with one credential.
type session struct {
	ref       name.Reference
	auth      authn.AuthConfig
	transport http.RoundTripper
	// Private is set if it took a credential of the caller's own to get in.
	private bool
}

func (s *session) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(s.transport)}
}

// try calls use for the mirrors of an image's registry and for the registry, and for each
// with the credentials that fit it, until it succeeds. The error is the registry's own,
// or, where mirrors failed in another way than not having it, theirs as well.
func (c *Client) try(ctx context.Context, ref name.Reference, use func(*session) error) error {
	var failures []error
	for _, place := range c.places(ref) {
		err := c.tryPlace(ctx, place, use)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failures = append(failures, explain(err, place))
	}
	return worst(failures)
}

func (c *Client) tryPlace(ctx context.Context, ref name.Reference, use func(*session) error) error {
	type attempt struct {
		auth    authn.AuthConfig
		private bool
	}
	repository := ref.Context().Name()
	var attempts []attempt
	for _, auth := range c.own.Lookup(repository) {
		attempts = append(attempts, attempt{auth, true})
	}
	for _, auth := range c.site.Lookup(repository) {
		attempts = append(attempts, attempt{auth, false})
	}
	if len(attempts) == 0 {
		attempts = append(attempts, attempt{})
	}
	var failed error
	for _, a := range attempts {
		rt := transport.NewRetry(c)
		authenticated, err := transport.NewWithContext(ctx, ref.Context().Registry, authn.FromConfig(a.auth), rt, []string{ref.Scope(transport.PullScope)})
		if err == nil {
			err = use(&session{ref: ref, auth: a.auth, transport: authenticated, private: a.private})
		}
		if err == nil {
			return nil
		}
		failed = err
		if !denied(err) {
			return err // another credential would not help
		}
	}
	return failed
}

// places are the mirrors' names for an image, and its own.
func (c *Client) places(ref name.Reference) []name.Reference {
	host := ref.Context().RegistryStr()
	mirrors := c.config.Mirrors[host]
	if host == name.DefaultRegistry && mirrors == nil {
		mirrors = c.config.Mirrors["docker.io"]
	}
	var places []name.Reference
	for _, mirror := range mirrors {
		mirror = strings.TrimSuffix(mirror, "/")
		separator := ":"
		if _, isDigest := ref.(name.Digest); isDigest {
			separator = "@"
		}
		// A mirror that cannot be named is told of where the configuration is checked.
		if p, err := c.Parse(mirror + "/" + ref.Context().RepositoryStr() + separator + ref.Identifier()); err == nil {
			places = append(places, p)
		}
	}
	return append(places, ref)
}

// Parse reads an image's name.
func (c *Client) Parse(reference string) (name.Reference, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return nil, err
	}
	if c.insecure(ref.Context().RegistryStr()) {
		return name.ParseReference(reference, name.Insecure)
	}
	return ref, nil
}

// Resolved is what a name stands for.
type Resolved struct {
	// Digest is the manifest's or, where there are several platforms, the index's.
	Digest string `json:"digest"`
	// Private is set if it took a credential of the caller's own to learn it.
	Private bool `json:"private"`
}

// Resolve asks what a name stands for now, and whether the caller may have it. Nothing
// is downloaded.
func (c *Client) Resolve(ctx context.Context, reference string) (Resolved, error) {
	ref, err := c.Parse(reference)
	if err != nil {
		return Resolved{}, err
	}
	var found Resolved
	err = c.try(ctx, ref, func(s *session) error {
		d, err := remote.Head(s.ref, s.options(ctx)...)
		if err != nil && ctx.Err() == nil {
			// Only the answer to GET says why not; and some registries have no HEAD.
			var got *remote.Descriptor
			if got, err = remote.Get(s.ref, s.options(ctx)...); err == nil {
				d = &got.Descriptor
			}
		}
		if err == nil {
			found = Resolved{Digest: d.Digest.String(), Private: s.private}
		}
		return err
	})
	return found, err
}

func denied(err error) bool {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return false
	}
	// Some registries say that what one may not see is not there.
	return answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusNotFound
}
