package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	suite "github.com/virtual-kubelet/virtual-kubelet/test/e2e"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/translate"
)

// TestVirtualKubelet is virtual-kubelet's own suite, of the version that the
// node is built with, all of it.
//
// Its pods are of images that exist nowhere and have no command: the site's table
// of images says what they mean. It reads stats and metrics from port 10250 of a
// pod that is named like the node, because virtual-kubelet runs in such a pod;
// and from it without credentials, because the API server's proxy to pods has
// none. So there is a pod that stands in, whose port passes requests on to the
// node's with the token of a ServiceAccount that may read both.
func TestVirtualKubelet(t *testing.T) {
	t.Parallel()
	address := routableAddress(t)
	idle := func(image string) translate.Image {
		return translate.Image{Name: image, Entrypoint: []string{"sleep"}, Cmd: []string{"infinity"}}
	}
	env := environmentWith(t, harness.Options{
		Name: "vksuite", WorkloadManager: "local", Nodes: 2, Address: address,
		Configure: func(c *provider.Config) { c.Images = translate.Images{idle("foo"), idle("bar"), idle("baz")} },
	})
	w := newWorld(t, env)
	w.standIn(address)
	tests := suite.NewEndToEndTestSuite(suite.EndToEndTestSuiteConfig{
		Kubeconfig: control.Kubeconfig(), Namespace: w.namespace, NodeName: env.Name,
		ShouldSkipTest: func(string) bool { return false },
	})
	count := 0
	for method := range reflect.TypeOf(tests).Methods() {
		if strings.HasPrefix(method.Name, "Test") {
			count++
		}
	}
	assert.Equal(t, 9, count, "the suite has other tests now: look what they expect")
	tests.Run(t)
}

// routableAddress is an address that the API server's proxies agree to call:
// not a loopback one. Where we may, it is a new one of this machine, so that
// runs side by side keep out of each other's way; it is of a range that is for
// tests alone (RFC 2544).
func routableAddress(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		address := fmt.Sprintf("198.18.%d.%d", rand.IntN(254)+1, rand.IntN(254)+1)
		out, err := exec.CommandContext(t.Context(), "ip", "address", "add", address+"/32", "dev", "lo").CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Cleanup(func() { _ = exec.Command("ip", "address", "del", address+"/32", "dev", "lo").Run() })
		return address
	}
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	require.Fail(t, "this machine has no address but loopback ones")
	return ""
}

// standIn makes a pod of the node's name that nobody runs, and serves its port.
func (w *world) standIn(address string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.env.Name}, Spec: corev1.PodSpec{
		SchedulerName: "nobody", Containers: []corev1.Container{{Name: "virtual-kubelet", Image: "virtual-kubelet"}},
	}}
	w.create(pod)
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	require.NoError(w, w.client.Status().Update(w.Context(), pod))

	port := w.nodePort(w.env.Name)
	token := w.allowed("stand-in", "get", "nodes/stats", "nodes/metrics")
	target, err := url.Parse("https://" + port.address)
	require.NoError(w, err)
	pair, err := tls.X509KeyPair(selfSigned(w, w.env.Name))
	require.NoError(w, err)
	listener, err := tls.Listen("tcp", net.JoinHostPort(address, "10250"), &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	require.NoError(w, err)
	server := &http.Server{ErrorLog: log.New(w.Output(), "stand-in: ", 0), Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: port.pool, MinVersion: tls.VersionTLS12}},
	}}
	go func() { _ = server.Serve(listener) }()
	w.Cleanup(func() { _ = server.Shutdown(context.Background()) })
}
