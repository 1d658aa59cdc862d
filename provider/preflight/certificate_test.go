package preflight

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/kubelet"
)

// A certificate that the cluster has signed already needs nobody's approval, unless the node
// has another address now.
func TestTheCertificateThatIsKept(t *testing.T) {
	p := Port{Address: "127.0.0.1", CertDir: t.TempDir()}
	assert.True(t, kept(p).IsZero(), "there is none")
	pair, key, err := cert.GenerateSelfSignedCertKey(p.Address, nil, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(kubelet.CertificateFile(p.CertDir), slices.Concat(pair, key), 0o600))
	assert.True(t, kept(p).After(time.Now()))
	p.Address = "10.0.0.5"
	assert.True(t, kept(p).IsZero(), "it is for another address")
}

func TestCredentialsThatAreNotTakenHaveTheirOwnCure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	cureOf := func(host string) string {
		api, err := NewAPI(&rest.Config{Host: host})
		require.NoError(t, err)
		lines := checkAPI(t.Context(), api, nil)
		require.Len(t, lines, 1)
		assert.Equal(t, doctor.Fail, lines[0].Status)
		return lines[0].Cure
	}
	assert.Contains(t, cureOf(server.URL), "has expired, was revoked")
	server.Close()
	assert.Contains(t, cureOf(server.URL), "see that the API server runs")
}

// The first line says what is wrong. Nothing follows from it that has a cure of its own.
func TestAsTheWrongUserOneLineFails(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Self: Self{Name: "root", Ordinary: true}, Who: []Who{{User: "root"}}, APIError: assert.AnError, ManagerError: assert.AnError, Progress: &bytes.Buffer{},
	})
	require.NoError(t, err)
	failed := map[string]int{}
	for _, l := range report.Lines {
		if l.Status == doctor.Fail {
			failed[l.Check]++
		}
	}
	assert.Equal(t, map[string]int{checkUser: 1, checkReach: 2}, failed, "%+v", report.Lines)
}
