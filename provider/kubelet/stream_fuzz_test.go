package kubelet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// rightsOf is an API server that knows one user with one right, and hears what is asked.
type rightsOf struct {
	verb, subresource string
	asked             []string
}

func (*rightsOf) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return &authenticator.Response{User: &user.DefaultInfo{Name: "somebody"}}, true, nil
}

func (r *rightsOf) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	r.asked = append(r.asked, a.GetVerb()+" "+a.GetSubresource())
	if a.GetResource() == "nodes" && a.GetName() == testNode && a.GetVerb() == r.verb && a.GetSubresource() == r.subresource {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// FuzzNodePort: whatever is asked of the node's port, a route answers those who have its right,
// and everybody else is refused; to run something it takes the right to create, whatever the
// method.
func FuzzNodePort(f *testing.F) {
	for _, seed := range [][4]string{
		{"POST", "/exec/ns/pi/main?command=sh&output=1", "create", "proxy"}, {"GET", "/exec/ns/pi/main?command=sh", "get", "proxy"},
		{"GET", "/pods/..%2fexec/ns/pi/main", "get", "pods"}, {"GET", "//portForward/ns/pi", "get", "proxy"}, {"POST", "/attach/ns/%2e%2e/main", "create", "proxy"},
		{"CONNECT", "/exec/ns/pi/main", "", "proxy"}, {"HEAD", "/metrics", "get", "metrics"}, {"get", "/pods", "", "pods"}, {"DELETE", "/pods", "delete", "pods"},
		{"GET", "/debug/pprof/profile?seconds=1", "get", "stats"}, {"POST", "/exec/ns/pi/main/../../../../healthz", "create", "healthz"}, {"GET", "/gangline/%00", "get", "proxy"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, method, target, verb, subresource string) {
		at, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		reached := -1
		table := Routes()
		for i := range table {
			table[i].handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = i })
		}
		who := &rightsOf{verb: verb, subresource: subresource}
		answer := httptest.NewRecorder()
		mux(table, &access{node: testNode, authn: who, authz: who}).ServeHTTP(answer, &http.Request{Method: method, URL: at, Header: http.Header{}, Body: http.NoBody, Host: "node"})
		if reached < 0 {
			// Nothing is there, or it is told by who may know, or where it is by now.
			assert.Contains(t, []int{http.StatusForbidden, http.StatusNotFound, http.StatusMovedPermanently, http.StatusTemporaryRedirect}, answer.Code)
			if answer.Code == http.StatusNotFound {
				assert.Equal(t, proxy, subresource)
			}
			return
		}
		route := table[reached]
		assert.Contains(t, route.Methods, strings.Replace(method, http.MethodHead, http.MethodGet, 1))
		assert.Contains(t, route.Subresources, subresource)
		assert.Contains(t, who.asked, verb+" "+subresource)
		if first := strings.SplitN(route.Path, "/", 3)[1]; first == "exec" || first == "attach" || first == "portForward" {
			assert.Equal(t, "create", verb, route.Path)
		}
	})
}

// FuzzStreams: whatever a client asks of exec, attach and port-forward, without an agent
// to speak to it gets words and a status, and no stream.
func FuzzStreams(f *testing.F) {
	for _, seed := range [][3]string{
		{"/exec/ns/pi/main", "command=sh&input=1&output=1&error=1&tty=1", "v4.channel.k8s.io"}, {"/attach/ns/pi/main", "stdout=true", "v5.channel.k8s.io"},
		{"/portForward/ns/pi", "port=80&port=-1&port=99999999999", "portforward.k8s.io"}, {"/exec/ns/pi/other", "command=", ""}, {"/exec/ns/nobody/main", "%zz", "x"},
		{"/portForward/ns/pi", "ports=x", "SPDY/3.1+portforward.k8s.io"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	dir := spool.Dir(f.TempDir())
	require.NoError(f, dir.Create(1))
	require.NoError(f, spool.Write(dir.Status(0), spool.Status{
		Agent: spool.Agent{Node: "n1", Address: "nowhere", SSHPort: 1}, Pod: &spool.PodStatus{UID: "u", Containers: []corev1.ContainerStatus{mainRuns()}},
	}))
	s := &streams{pods: runningPod{onePod{place: &Place{Site: site.Local{}, Dir: dir}}}}
	m := http.NewServeMux()
	m.Handle("/exec/{namespace}/{pod}/{container}", failing(s.exec))
	m.Handle("/attach/{namespace}/{pod}/{container}", failing(s.attach))
	m.Handle("/portForward/{namespace}/{pod}", failing(s.portForward))
	f.Fuzz(func(t *testing.T, path, query, protocol string) {
		for _, header := range []http.Header{
			{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {protocol}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Version": {"13"}},
			{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": {protocol}},
		} {
			answer := httptest.NewRecorder()
			m.ServeHTTP(answer, &http.Request{Method: http.MethodPost, URL: &url.URL{Path: path, RawQuery: query}, Header: header, Body: http.NoBody, Host: "node"})
			assert.GreaterOrEqual(t, answer.Code, 300)
			assert.NotEqual(t, http.StatusSwitchingProtocols, answer.Code)
			if answer.Code == http.StatusInternalServerError {
				assert.NotEmpty(t, answer.Body.String())
			}
		}
	})
}
