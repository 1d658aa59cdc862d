package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/kubelet"
)

// TestNodePort is about who may have what of the node's port, and by which
// certificate it is known.
func TestNodePort(t *testing.T) {
	t.Parallel()
	env := environment(t, "port", "local", 1, nil)
	runAll(t, env, map[string]func(*world){
		"every route asks the API server":            everyRoute,
		"a client certificate of the cluster":        clientCertificate,
		"a ServiceAccount scrapes as metrics-server": scrape,
		"a certificate in files is read again":       certificateFiles,
		"a certificate that the cluster signs":       certificateRequest,
	})
}

// nodePort is how one calls a node's port.
type nodePort struct {
	w       *world
	address string
	pool    *x509.CertPool
}

func (w *world) nodePort(name string) nodePort {
	w.Helper()
	node := &corev1.Node{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Name: name}, node))
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	require.NoError(w, err)
	pool := x509.NewCertPool()
	require.True(w, pool.AppendCertsFromPEM(config.CAData))
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	return nodePort{w: w, pool: pool, address: net.JoinHostPort(node.Status.Addresses[0].Address, strconv.Itoa(port))}
}

// ask makes a request; the node's certificate must be the cluster's.
func (p nodePort) ask(method, path, token string, clients ...tls.Certificate) (int, string) {
	p.w.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.pool, MinVersion: tls.VersionTLS12}}
	if len(clients) > 0 {
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &clients[0], nil }
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(p.w.Context(), method, "https://"+p.address+path, nil)
	require.NoError(p.w, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(request)
	require.NoError(p.w, err)
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(response.Body)
	require.NoError(p.w, err)
	return response.StatusCode, string(body)
}

// allowed makes a ServiceAccount that may do this to the node, nothing if the
// verb is empty, and returns its token.
func (w *world) allowed(name, verb string, resources ...string) string {
	w.Helper()
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if verb != "" {
		unique := w.namespace + "-" + name
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: unique}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: resources, Verbs: []string{verb}, ResourceNames: []string{w.env.Name}},
		}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: unique},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: unique},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: w.namespace}},
		}
		for _, o := range []client.Object{role, binding} {
			require.NoError(w, w.client.Create(w.Context(), o))
			w.Cleanup(func() { _ = w.client.Delete(context.Background(), o) })
		}
		// The API server's authorizer learns of it by a watch of its own.
		w.eventually("the right is known", func(context.Context) (bool, string) {
			_, subresource, _ := strings.Cut(resources[0], "/")
			out, err := w.kubectl("auth", "can-i", verb, "nodes/"+w.env.Name, "--subresource", subresource,
				"--as", "system:serviceaccount:"+w.namespace+":"+name)
			return err == nil, out
		})
	}
	return strings.TrimSpace(w.must("create", "token", name))
}

func everyRoute(w *world) {
	port := w.nodePort(w.env.Name)
	nobody := w.allowed("nobody", "")
	tokens := map[string]string{}
	for _, route := range kubelet.Routes() {
		for _, method := range route.Methods {
			path := strings.NewReplacer("{$}", "", "{namespace}", w.namespace, "{", "", "}", "").Replace(route.Path)
			verb := route.Verb
			if verb == "" {
				verb = "get"
			}
			status, _ := port.ask(method, path, "")
			assert.Equal(w, http.StatusUnauthorized, status, "%s %s by nobody", method, path)
			status, _ = port.ask(method, path, "eyJhbGciOiJub25lIn0.e30.")
			assert.Equal(w, http.StatusUnauthorized, status, "%s %s with a forged token", method, path)
			status, _ = port.ask(method, path, nobody)
			assert.Equal(w, http.StatusForbidden, status, "%s %s without a right", method, path)
			for _, subresource := range route.Subresources {
				name := verb + "-" + subresource
				if tokens[name] == "" {
					tokens[name] = w.allowed(name, verb, "nodes/"+subresource)
				}
				status, body := port.ask(method, path, tokens[name])
				assert.NotContains(w, []int{http.StatusUnauthorized, http.StatusForbidden}, status, "%s %s with %s: %s", method, path, name, body)
			}
		}
	}
	// What monitoring agents commonly have does not let them run anything.
	status, _ := port.ask(http.MethodGet, "/exec/"+w.namespace+"/p/c?command=id", tokens["get-proxy"])
	assert.Equal(w, http.StatusForbidden, status, "exec by the right to read")
}

func clientCertificate(w *world) {
	port := w.nodePort(w.env.Name)
	known := nodeCredentials(w, "prober", "")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(known, "kubeconfig"))
	require.NoError(w, err)
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	require.NoError(w, err)
	status, _ := port.ask(http.MethodGet, "/healthz", "", pair)
	assert.Equal(w, http.StatusForbidden, status, "somebody known, without rights")

	stranger, err := tls.X509KeyPair(selfSigned(w, "prober"))
	require.NoError(w, err)
	status, _ = port.ask(http.MethodGet, "/healthz", "", stranger)
	assert.Equal(w, http.StatusUnauthorized, status, "a certificate that anybody can make")
}

// nodeCredentials makes credentials of the cluster: a client certificate of a
// user, and a serving certificate.
func nodeCredentials(w *world, user, owner string) string {
	w.Helper()
	out := filepath.Join(w.TempDir(), "credentials")
	args := []string{"node-credentials", "--dir", filepath.Dir(control.Kubeconfig()), "--name", w.env.Name, "--user", user, "--out", out}
	if owner != "" {
		args = append(args, "--owner", owner)
	}
	words, err := exec.CommandContext(w.Context(), filepath.Join(root(), "bin", "devcluster"), args...).CombinedOutput()
	require.NoError(w, err, "%s", words)
	return out
}

func scrape(w *world) {
	port := w.nodePort(w.env.Name)
	token := w.allowed("scraper", "get", "nodes/metrics", "nodes/stats")
	status, body := port.ask(http.MethodGet, "/metrics/resource", token)
	assert.Equal(w, http.StatusOK, status, body)
	assert.Contains(w, body, "node_cpu_usage_seconds_total")
	status, body = port.ask(http.MethodGet, "/stats/summary", token)
	assert.Equal(w, http.StatusOK, status, body)
	assert.Contains(w, body, w.env.Name)
	status, _ = port.ask(http.MethodGet, "/pods", token)
	assert.Equal(w, http.StatusForbidden, status, "and no more than that")
}

// shown is the number of the certificate that the port shows.
func (p nodePort) shown() (string, error) {
	conn, err := tls.Dial("tcp", p.address, &tls.Config{RootCAs: p.pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // only looked at
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

func certificateFiles(w *world) {
	port := w.nodePort(w.env.Name)
	before, err := port.shown()
	require.NoError(w, err)
	fresh := nodeCredentials(w, "gangline-node", "")
	for _, file := range []string{"serving.crt", "serving.key"} {
		data, err := os.ReadFile(filepath.Join(fresh, file))
		require.NoError(w, err)
		// As a file that is written over: its owner and rights stay.
		require.NoError(w, os.WriteFile(filepath.Join(w.env.Node.Dir(), "credentials", file), data, 0o600))
	}
	w.eventually("the new certificate is shown", func(context.Context) (bool, string) {
		now, err := port.shown()
		return err == nil && now != before, fmt.Sprint(now, err)
	})
	w.create(w.makePod("reader", "echo it is read", resources("1", "0")))
	w.waitPhase("reader", corev1.PodSucceeded)
	assert.Contains(w, w.must("logs", "reader"), "it is read")
}

// requestsOf are the certificates that a virtual node has asked for.
func requestsOf(w *world, node string) (names []string, err error) {
	all := &certificatesv1.CertificateSigningRequestList{}
	if err := w.client.List(w.Context(), all); err != nil {
		return nil, err
	}
	for _, r := range all.Items {
		block, _ := pem.Decode(r.Spec.Request)
		if block == nil {
			return nil, fmt.Errorf("the request %s is no PEM", r.Name)
		}
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return nil, err
		}
		if csr.Subject.CommonName == "system:node:"+node {
			names = append(names, r.Name)
		}
	}
	return names, nil
}

// certificateRequest has a node of its own: nothing of the port works before the
// certificate is approved.
func certificateRequest(w *world) {
	env := environment(w.T, "portcsr", "local", 1, func(c *provider.Config) {
		c.Kubelet.CertDir = filepath.Join(filepath.Dir(c.Kubelet.CertFile), "pki")
		c.Kubelet.CertFile, c.Kubelet.KeyFile = "", ""
	})
	w.env = env
	var request string
	w.eventually("the node asks for a certificate", func(context.Context) (bool, string) {
		names, err := requestsOf(w, env.Name)
		request = strings.Join(names, " ")
		return err == nil && request != "", fmt.Sprint(names, err)
	})
	require.NotContains(w, request, " ", "it asks once")
	w.eventually("an Event of the node says what to do", func(context.Context) (bool, string) {
		out, err := w.kubectl("describe", "node", env.Name)
		return err == nil && strings.Contains(out, "kubectl certificate approve "+request), out
	})
	w.create(w.makePod("early", "echo now; sleep 600", resources("1", "0")))
	w.waitPhase("early", corev1.PodRunning)
	_, err := w.kubectl("logs", "early")
	require.Error(w, err, "there is no certificate that the API server could trust")

	w.must("certificate", "approve", request)
	w.eventually("the logs are there", func(context.Context) (bool, string) {
		out, err := w.kubectl("logs", "early")
		return err == nil && strings.Contains(out, "now"), fmt.Sprint(out, err)
	})
	port := w.nodePort(env.Name)
	before, err := port.shown()
	require.NoError(w, err)
	require.NoError(w, env.Node.Stop())
	require.NoError(w, env.Node.Start(w.Context()))
	w.eventually("the certificate is kept over a restart", func(context.Context) (bool, string) {
		now, err := port.shown()
		return err == nil && now == before, fmt.Sprint(now, err)
	})
	assert.Contains(w, w.must("logs", "early"), "now")
	w.must("delete", "pod", "early", "--now")
	w.waitGone("early")
}
