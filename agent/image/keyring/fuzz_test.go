package keyring_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/keyring"
)

// FuzzKeyring: whatever a Secret holds, an error tells nothing of it, and merging keeps it.
func FuzzKeyring(f *testing.F) {
	for _, secret := range []string{
		`{"auths":{"reg.site":{"username":"a","password":"p"},"*.site/team":{"auth":"YTpzZWNyZXQ="}}}`, `{"reg.site:5000":{"username":"a"}}`,
		`{"gangline":{"reg.site":[{"username":"a"},{"username":"b"}]}}`, `{"auths":{"http://[":{"username":"a"}}}`, `{"auths":null}`, `[]`, `null`, "\xff",
	} {
		f.Add([]byte(secret), "reg.site/team/app")
	}
	f.Fuzz(func(t *testing.T, secret []byte, image string) {
		k, err := keyring.Parse(secret)
		merged, mergeErr := keyring.Merge(secret, nil)
		if err != nil {
			assert.Contains(t, []string{
				"registry credentials cannot be read: they are no .dockerconfigjson and no .dockercfg (what kubectl create secret docker-registry makes)",
				"registry credentials name a registry that is no address",
			}, err.Error(), "and nothing of what was read")
			return
		}
		require.NoError(t, mergeErr)
		again, err := keyring.Parse(merged)
		require.NoError(t, err)
		assert.ElementsMatch(t, shown(k.Lookup(image)), shown(again.Lookup(image)))
	})
}

// shown is what registries are shown of credentials, in whatever form they are kept.
func shown(all []authn.AuthConfig) [][3]string {
	var out [][3]string
	for _, c := range all {
		out = append(out, [3]string{c.Username + ":" + c.Password, c.IdentityToken, c.RegistryToken})
	}
	return out
}

// FuzzLookup: a credential goes to no host but its own.
func FuzzLookup(f *testing.F) {
	for _, c := range [][2]string{
		{"reg.site", "reg.site/app"}, {"https://reg.site/v2/", "reg.site/app"}, {"*.site", "reg.site/app"}, {"reg.site", "reg.site.evil/app"},
		{"reg.site", "evil/reg.site/app"}, {"reg.site:5000", "reg.site/app"}, {"reg.site@evil", "evil/app"}, {"", "/app"}, {"https://index.docker.io/v1/", "evil/app"},
		{"reg.site/team", "reg.site/teammate/app"}, {"docker.io", "app"}, {"/team", "reg.site/team"},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, location, image string) {
		secret, err := json.Marshal(map[string]any{"auths": map[string]authn.AuthConfig{location: {Username: "a", Password: "p"}}})
		require.NoError(t, err)
		k, err := keyring.Parse(secret)
		if err != nil || len(k.Lookup(image)) == 0 {
			return
		}
		if !strings.Contains(location, "://") || !strings.HasPrefix(location, "http") {
			location = "https://" + location
		}
		of, err := url.Parse(location)
		require.NoError(t, err)
		host, _, more := strings.Cut(image, "/")
		if of.Host == "index.docker.io" && (!more || !strings.ContainsAny(host, ".:") || host == "docker.io") {
			return // an image without a registry is Docker Hub's
		}
		if !strings.ContainsAny(of.Host, `*?[\`) {
			assert.Equal(t, of.Host, host)
			return
		}
		assert.Equal(t, strings.Count(of.Host, "."), strings.Count(host, "."), "a wildcard stands for no dot")
	})
}
