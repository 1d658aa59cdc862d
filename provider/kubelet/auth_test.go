package kubelet

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served is the stub handlers' answer.
const served = http.StatusTeapot

// rightsOfRoutes is who may have what, apart from the code: a route that is not
// here fails the test.
var rightsOfRoutes = map[string]string{
	"GET /stats/summary":                         "get stats",
	"GET /stats/summary/":                        "get stats",
	"GET /metrics/resource":                      "get metrics",
	"GET /metrics/resource/":                     "get metrics",
	"GET /healthz":                               "get healthz, get proxy",
	"GET /pods":                                  "get pods, get proxy",
	"GET /runningpods":                           "get pods, get proxy",
	"GET /runningpods/":                          "get pods, get proxy",
	"GET /containerLogs/namespace/pod/container": "get proxy",
	"GET /exec/namespace/pod/container":          "create proxy",
	"POST /exec/namespace/pod/container":         "create proxy",
	"GET /attach/namespace/pod/container":        "create proxy",
	"POST /attach/namespace/pod/container":       "create proxy",
	"GET /portForward/namespace/pod":             "create proxy",
	"POST /portForward/namespace/pod":            "create proxy",
	"GET /readyz":                                "get healthz, get proxy",
	"GET /metrics":                               "get metrics",
	"GET /debug/pprof/":                          "get proxy",
	"GET /debug/pprof/name":                      "get proxy",
	"GET /gangline":                              "get proxy",
	"GET /gangline/path...":                      "get proxy",
}

// requests are one for each method of each route.
func requests() []string {
	var all []string
	for _, r := range Routes() {
		for _, method := range r.Methods {
			all = append(all, method+" "+strings.NewReplacer("{$}", "", "{", "", "}", "").Replace(r.Path))
		}
	}
	return all
}

func TestEveryRouteAsksForItsRight(t *testing.T) {
	p := startPort(t, Routes())
	stranger, known := newAuthority(t).client(t, "mallory"), p.authority.client(t, "monitor")
	// Every right but those of the route: of another verb, of another subresource.
	all := []string{}
	for _, verb := range []string{"get", "create", "update", "delete", ""} {
		for _, subresource := range []string{"proxy", "pods", "healthz", "stats", "metrics", "log", "configz", "checkpoint", "exec", ""} {
			all = append(all, verb+" "+subresource)
		}
	}
	for i, request := range requests() {
		t.Run(request, func(t *testing.T) {
			method, path, _ := strings.Cut(request, " ")
			rights, ok := rightsOfRoutes[request]
			if !assert.True(t, ok, "say in the test who may have the new route") {
				return
			}
			assert.Equal(t, http.StatusUnauthorized, p.ask(method, path, "", nil), "nobody is anonymous")
			assert.Equal(t, http.StatusUnauthorized, p.ask(method, path, "forged", nil), "a token that the API server does not know")
			assert.Equal(t, http.StatusUnauthorized, p.ask(method, path, "", stranger), "another CA's certificate")
			assert.Equal(t, http.StatusForbidden, p.ask(method, path, "token-nobody", nil), "somebody without rights")
			// Denials are remembered by user, so each set of rights is another's.
			almost := fmt.Sprintf("almost%d", i)
			for _, right := range all {
				p.allow(almost + " " + right)
			}
			for n, right := range strings.Split(rights, ", ") {
				p.deny(almost + " " + right)
				user := fmt.Sprintf("user%d-%d", i, n)
				p.allow(user + " " + right)
				assert.Equal(t, served, p.ask(method, path, "token-"+user, nil), "by token, allowed to %s", right)
			}
			assert.Equal(t, http.StatusForbidden, p.ask(method, path, "token-"+almost, nil), "every other right")
			right, _, _ := strings.Cut(rights, ",")
			p.allow("monitor " + right)
			assert.Equal(t, served, p.ask(method, path, "", known), "by certificate")
			p.deny("monitor " + right)
		})
	}
}

func TestWhatIsNotThereIsToldToNobodyElse(t *testing.T) {
	p := startPort(t, Routes())
	p.allow("admin get proxy")
	p.allow("scraper get metrics")
	for _, path := range []string{
		"/", "//pods", "/x/../pods", "/pods/./", "/run/ns/pod/container", "/logs/", "/debug/", "/exec/ns/pod", "/healthz/", "/pods/x",
		// Another path's right does not open what lies behind it.
		"/metrics/resource/..%2f..%2fexec/ns/pod/container", "/metrics/%2e%2e/exec/ns/pod/container",
	} {
		t.Run(path, func(t *testing.T) {
			assert.Equal(t, http.StatusUnauthorized, p.ask(http.MethodGet, path, "", nil))
			assert.Equal(t, http.StatusForbidden, p.ask(http.MethodGet, path, "token-scraper", nil))
			assert.Equal(t, http.StatusNotFound, p.ask(http.MethodGet, path, "token-admin", nil))
		})
	}
	assert.Equal(t, http.StatusForbidden, p.ask(http.MethodDelete, "/pods", "token-admin", nil), "a method that the route does not have")
}

func TestNobodyBorrowsAPathsRight(t *testing.T) {
	p := startPort(t, Routes())
	p.allow("pods get pods")
	for _, path := range []string{"/pods/../exec/ns/pod/container", "//exec/ns/pod/container", "/pods/..%2fexec/ns/pod/container"} {
		status := p.ask(http.MethodGet, path, "token-pods", nil)
		assert.Contains(t, []int{http.StatusForbidden, http.StatusMovedPermanently, http.StatusTemporaryRedirect}, status, path)
	}
}

func TestEveryRouteIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/node-port.md")
	require.NoError(t, err)
	for _, r := range Routes() {
		assert.Contains(t, string(text), "`"+strings.TrimSuffix(r.Path, "{$}")+"`")
	}
}
