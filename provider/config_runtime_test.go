package provider

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/provider/spool"
)

func TestContainersConfig(t *testing.T) {
	for sentence, tc := range map[string]struct {
		config ContainersConfig
		wrong  []string
	}{
		"nothing said: no images": {ContainersConfig{}, nil},
		"a site of one runtime":   {ContainersConfig{Runtime: "podman", Store: StoreConfig{Dir: "/shared/{user}"}}, nil},
		"a runtime that is none":  {ContainersConfig{Allowed: []string{"host", "docker"}, Store: StoreConfig{Dir: "/s"}}, []string{`containers.allowed: there is no runtime "docker"`}},
		"a default that is not allowed": {
			ContainersConfig{Runtime: "podman", Allowed: []string{"host"}}, []string{"containers.runtime is podman, which containers.allowed does not have"}},
		"images without a store": {ContainersConfig{Runtime: "enroot"}, []string{"containers.store.dir must be the absolute path"}},
		"fields of a store":      {ContainersConfig{Store: StoreConfig{Dir: "/s/{job}"}}, []string{"may have no field but {user}"}},
		"sizes below 0":          {ContainersConfig{Store: StoreConfig{MaxSize: resource.MustParse("-1")}}, []string{"must not be below 0"}},
		"relative paths": {
			ContainersConfig{
				Runtimes: map[string]RuntimeConfig{"podman": {Program: "podman"}, "host": {}}, Registries: RegistriesConfig{CAFile: "ca", CredentialsFile: "auth"},
				Offline: map[string]string{"a": "b"}, Binds: []spool.Bind{{Source: "usr"}, {Source: "/usr", Target: "x"}},
			}, []string{
				"containers.runtimes.podman.program must be an absolute path", "containers.runtimes.host: there is no such container runtime",
				"containers.registries.caFile", "containers.registries.credentialsFile", "containers.offline", "containers.binds[0]", "containers.binds[1]",
			}},
		"words that are none": {ContainersConfig{Home: "x", GPUs: "intel"}, []string{"containers.home must be private or user", "containers.gpus must be nvidia or amd"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := tc.config
			c.setDefaults()
			problems := c.problems()
			assert.Len(t, problems, len(tc.wrong), problems)
			for _, want := range tc.wrong {
				found := slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) })
				assert.True(t, found, "%s: %v", want, problems)
			}
		})
	}
}
