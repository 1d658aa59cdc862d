package slurm_test

import (
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/slurm/rest"
	"github.com/gangline/gangline/provider/wlm"
	devslurm "github.com/gangline/gangline/test/slurm"
)

func overCLI(t *testing.T, tm team) *cluster {
	config := tm.access[sites.Setuid]
	config.Lock += "-of-cli" // a gateway waits for another with its lock
	m, end := tm.overCLI(t, config)
	t.Cleanup(func() { assert.NoError(t, end()) })
	c := tm.of(0, "cli", m)
	c.down = "Unable to contact slurm controller"
	return c
}

func overREST(t *testing.T, dev *devslurm.Cluster, url string, change ...func(*rest.Config)) *cluster {
	token, err := dev.Token(t.Context(), time.Hour)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	cfg := rest.Config{URL: url, TokenFile: file}
	for _, f := range change {
		f(&cfg)
	}
	manager, err := rest.New(cfg)
	require.NoError(t, err)
	const vague = "Requested node configuration is not available"
	return &cluster{
		dev: dev, Manager: manager, kind: "rest", spool: dev.SharedDir(), user: dev.User(), uid: dev.UID(), gid: dev.GID(),
		down: "slurmctld is down, or does not accept the token|Unable to contact slurm controller",
		vague: map[string]string{
			"CPU count per node can not be satisfied": vague, "CPU count per node": vague,
			"Memory specification can not be satisfied": vague,
		},
	}
}

// testOtherWays reaches slurmrestd by its port and, as sites do, behind a proxy with TLS.
func testOtherWays(t *testing.T, dev *devslurm.Cluster) {
	proxy := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: dev.RESTAddr()}))
	t.Cleanup(proxy.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	tests := map[string]*cluster{
		"TCP":         overREST(t, dev, "http://"+dev.RESTAddr()),
		"TLS":         overREST(t, dev, proxy.URL, func(c *rest.Config) { c.CAFile = ca }),
		"user-named":  overREST(t, dev, "unix:"+dev.RESTSocket(), func(c *rest.Config) { c.User = dev.User() }),
		"version-set": overREST(t, dev, "unix:"+dev.RESTSocket(), func(c *rest.Config) { c.APIVersion = "v0.0.38" }),
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			r := c.request(t, "way-"+strings.ToLower(name), tasks(1, 1, 64, 0))
			id, err := c.Submit(t.Context(), r)
			require.NoError(t, err)
			read(t, r, "ready")
			assert.Equal(t, wlm.OutcomeCompleted, c.end(t, r, id).Outcome)
		})
	}
	t.Run("a server that nobody vouches for", func(t *testing.T) {
		_, err := overREST(t, dev, proxy.URL).List(t.Context())
		assert.ErrorContains(t, err, "certificate")
	})
	t.Run("a token for nobody", func(t *testing.T) {
		c := overREST(t, dev, "unix:"+dev.RESTSocket(), func(c *rest.Config) { c.User = "daemon" })
		jobs, err := c.List(t.Context())
		assert.Nil(t, jobs)
		assert.ErrorContains(t, err, "does not accept the token")
		_, err = c.Submit(t.Context(), c.request(t, "for-nobody", tasks(1, 1, 64, 0)))
		var rejected *wlm.RejectedError
		assert.Error(t, err)
		assert.NotErrorAs(t, err, &rejected)
	})
}
