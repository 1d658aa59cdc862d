package image_test

import (
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/test/registry"
)

func TestErrorsNameCauseAndCure(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", app(t, "one"))
	secure := registry.Start(t, registry.TLS())
	secure.Push("app:1", app(t, "one"))
	closed := registry.Start(t, registry.Login("u", "secret"))
	closed.Push("app:1", app(t, "one"))
	gone := registry.Start(t)
	gone.Stop()
	other := registry.Start(t)
	other.Push("app:1", registry.ImageFor(t, "vax", v1.Config{}, registry.Files(map[string]string{"a": "b"})))
	other.Push("index:1", registry.Index(t, map[string]v1.Image{"vax": registry.ImageFor(t, "vax", v1.Config{})}))
	failing := registry.Start(t)
	failing.Fail(func(*http.Request) int { return http.StatusBadRequest })
	busy := registry.Start(t)
	busy.Fail(func(*http.Request) int { return http.StatusTooManyRequests })
	s := newSite(t, nil, func(o *image.Options) {
		for _, x := range []*registry.Registry{r, closed, gone, other, failing, busy} {
			o.Insecure = append(o.Insecure, x.Host())
		}
	})
	for sentence, tc := range map[string]struct {
		image, credentials, reason, message string
	}{
		"a name that is none":               {"Team/App:1", "", image.ReasonInvalidImageName, `couldn't parse image name "Team/App:1"`},
		"an image that there is not":        {r.Image("none:1"), "", image.ReasonErrImagePull, "not found"},
		"a registry that asks who one is":   {closed.Image("app:1"), "", image.ReasonErrImagePull, "imagePullSecrets"},
		"a wrong password":                  {closed.Image("app:1"), string(registry.DockerConfig(closed.Host(), "u", "wrong-one")), image.ReasonErrImagePull, "unauthorized"},
		"credentials that are none":         {closed.Image("app:1"), "hunter2", image.ReasonErrImagePull, "no .dockerconfigjson"},
		"a host that there is not":          {"registry.invalid/app:1", "", image.ReasonErrImagePull, "no such host"},
		"a registry that is down":           {gone.Image("app:1"), "", image.ReasonRegistryUnavailable, "connection refused"},
		"a registry that has had enough":    {busy.Image("app:1"), "", image.ReasonRegistryUnavailable, "mirror"},
		"a registry that answers strangely": {failing.Image("app:1"), "", image.ReasonErrImagePull, failing.Host()},
		"a certificate of nobody's":         {secure.Image("app:1"), "", image.ReasonErrImagePull, "caFile"},
		"an image for other machines":       {other.Image("app:1"), "", image.ReasonErrImagePull, "the image is for vax"},
		"an index for other machines":       {other.Image("index:1"), "", image.ReasonErrImagePull, "has no image for linux/"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := s.agent()
			_, err := s.ensure(image.Request{Reference: tc.image, Credentials: []byte(tc.credentials)})
			assert.Equal(t, tc.reason, reason(t, err), err)
			assert.Contains(t, err.Error(), tc.message)
			assert.NotContains(t, err.Error(), "hunter2")
			assert.NotContains(t, err.Error(), "wrong-one")
			assert.Contains(t, s.events[len(s.events)-1].Message, tc.message)
		})
	}
	_, err := newSite(t, nil).ensure(image.Request{Reference: r.Image("app:1")})
	assert.ErrorContains(t, err, "registries.insecure", "HTTP is not spoken unless the site says so, not even on the loopback")
}

func TestACAFileMakesARegistryTrusted(t *testing.T) {
	r := registry.Start(t, registry.TLS())
	r.Push("app:1", app(t, "one"))
	s := newSite(t, nil, func(o *image.Options) { o.CAFile = r.CAFile() })
	_, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	assert.NoError(t, err)
	s = newSite(t, r)
	_, err = s.ensure(image.Request{Reference: r.Image("app:1")})
	assert.NoError(t, err, "so does registries.insecure, whatever the certificate")
}

func TestAPrivateImageIsForThoseWithACredential(t *testing.T) {
	r := registry.Start(t, registry.Login("u", "p"))
	r.Push("app:1", app(t, "one"))
	s := newSite(t, r)
	name := r.Image("app:1")

	mine, err := image.MergeCredentials(registry.DockerConfig("other.site", "x", "y"), r.DockerConfig())
	require.NoError(t, err)
	_, err = s.ensure(image.Request{Reference: name, Credentials: mine})
	require.NoError(t, err)

	for _, policy := range []corev1.PullPolicy{corev1.PullIfNotPresent, corev1.PullNever, corev1.PullAlways} {
		_, err = s.ensure(image.Request{Reference: name, Policy: policy})
		assert.ErrorContains(t, err, "unauthorized", "another pod of the same agent, without a secret")
	}
	_, err = s.agent().ensure(image.Request{Reference: name, Credentials: registry.DockerConfig(r.Host(), "u", "wrong")})
	assert.ErrorContains(t, err, "unauthorized", "nor with a wrong one")
	_, err = s.agent().ensure(image.Request{Reference: name, Credentials: r.DockerConfig()})
	require.NoError(t, err)
	for blob, n := range r.Blobs() {
		assert.Equal(t, 1, n, blob)
	}
	err = filepath.WalkDir(s.options.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			assert.NotContains(t, read(t, path), `"password"`)
		}
		return err
	})
	require.NoError(t, err)

	r.Stop()
	_, err = s.ensure(image.Request{Reference: name, Credentials: mine})
	assert.NoError(t, err, "whom this agent has seen the registry let in starts again without it")
}

func TestTokensAndRedirects(t *testing.T) {
	img := app(t, "one")
	r := registry.Start(t, registry.Login("u", "p"), registry.Tokens())
	r.Push("app:1", img)
	blobs := registry.Start(t)
	blobs.Push("app:1", img)
	var credentials atomic.Int32
	blobs.Fail(func(q *http.Request) int {
		if q.Header.Get("Authorization") != "" {
			credentials.Add(1)
		}
		return 0
	})
	r.Redirect(blobs.Host())
	s := newSite(t, r, func(o *image.Options) { o.Insecure = append(o.Insecure, blobs.Host()) })
	_, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	assert.ErrorContains(t, err, "unauthorized")
	_, err = s.ensure(image.Request{Reference: r.Image("app:1"), Credentials: r.DockerConfig()})
	require.NoError(t, err)
	assert.Len(t, blobs.Blobs(), 3, "all came from where the registry sent us")
	assert.Zero(t, credentials.Load(), "which got no credential")

	s = newSite(t, r)
	_, err = s.ensure(image.Request{Reference: r.Image("app:1"), Credentials: r.DockerConfig()})
	assert.ErrorContains(t, err, blobs.Host()+" is asked for over http, which is not allowed")
}

func TestTheSitesCredentialsAreForEverybody(t *testing.T) {
	r := registry.Start(t, registry.Login("u", "p"))
	r.Push("app:1", app(t, "one"))
	file := filepath.Join(t.TempDir(), "site.json")
	require.NoError(t, os.WriteFile(file, r.DockerConfig(), 0o600))
	s := newSite(t, r, func(o *image.Options) { o.CredentialsFile = file })
	_, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	require.NoError(t, err)
	r.Stop()
	_, err = s.agent().ensure(image.Request{Reference: r.Image("app:1")})
	assert.NoError(t, err, "so nobody has to show one")
}

func TestMirrorsAreAskedFirst(t *testing.T) {
	origin, mirror, broken := registry.Start(t), registry.Start(t), registry.Start(t)
	broken.Fail(func(*http.Request) int { return http.StatusForbidden })
	origin.Push("team/app:1", app(t, "one"))
	origin.Push("team/more:1", app(t, "two"))
	mirror.Push("proxy/team/app:1", app(t, "one"))
	s := newSite(t, origin, func(o *image.Options) {
		o.Insecure = append(o.Insecure, mirror.Host(), broken.Host())
		o.Mirrors = map[string][]string{origin.Host(): {broken.Host(), mirror.Host() + "/proxy"}}
	})
	got, err := s.ensure(image.Request{Reference: origin.Image("team/app:1")})
	require.NoError(t, err)
	assert.Equal(t, "one", read(t, got.Path, "etc/text"))
	assert.Empty(t, origin.Blobs())
	assert.Contains(t, got.ID, origin.Host()+"/team/app@", "the image keeps its name")

	got, err = s.ensure(image.Request{Reference: origin.Image("team/more:1")})
	require.NoError(t, err, "and the registry itself for what they do not have")
	assert.Equal(t, "two", read(t, got.Path, "etc/text"))

	_, err = s.ensure(image.Request{Reference: origin.Image("team/none:1")})
	assert.ErrorContains(t, err, "not found: "+origin.Host())
	assert.ErrorContains(t, err, "its mirrors failed too: unauthorized: "+broken.Host())
}

func TestAnIndexIsForThisMachine(t *testing.T) {
	r := registry.Start(t)
	digest := r.Push("app:1", registry.Index(t, map[string]v1.Image{
		"vax":  registry.ImageFor(t, "vax", v1.Config{}, registry.Files(map[string]string{"etc/text": "vax"})),
		goarch: app(t, "here"),
	}))
	s := newSite(t, r)
	got, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	require.NoError(t, err)
	assert.Equal(t, "here", read(t, got.Path, "etc/text"))
	assert.Equal(t, digest, got.Digest, "the digest is the index's, as in kubelet")
}

func TestADownloadThatBreaksOffGoesOn(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", registry.Image(t, v1.Config{}, registry.Files(map[string]string{"big": noise(3 << 20)})))
	r.Break(1, 1<<20)
	s := newSite(t, r)
	got, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	require.NoError(t, err)
	assert.Equal(t, noise(3<<20), read(t, got.Path, "big"))
}

func TestWhatARegistryChangesIsNotTaken(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", app(t, "one"))
	s := newSite(t, r)
	proxy := changing(t, r.Host())
	s.options.Insecure = append(s.options.Insecure, proxy)
	s = s.agent()
	_, err := s.ensure(image.Request{Reference: proxy + "/app:1"})
	assert.Equal(t, image.ReasonErrImagePull, reason(t, err))
	assert.ErrorContains(t, err, "changes what it sends")
	entries, err := s.List()
	require.NoError(t, err)
	for _, e := range entries {
		assert.Empty(t, e.Forms, "nothing of it is in the store")
	}
}
