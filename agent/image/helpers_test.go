package image_test

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goarch = runtime.GOARCH

// noise cannot be compressed, and is always the same.
func noise(n int) string {
	out := make([]byte, n)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(out) // never fails
	return string(out)
}

// changing is a registry that changes a byte of every blob on its way.
func changing(t *testing.T, host string) string {
	t.Helper()
	target, err := url.Parse("http://" + host)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "/blobs/") {
			w = &changed{ResponseWriter: w}
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

type changed struct{ http.ResponseWriter }

func (c *changed) Write(p []byte) (int, error) {
	p = append([]byte(nil), p...)
	p[len(p)/2] ^= 1
	return c.ResponseWriter.Write(p)
}
