package e2e

import (
	"fmt"
	"io"
	"net/http"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeHTTP asks the virtual node itself, as the administrator and past the API
// server.
type nodeHTTP struct {
	w      *world
	url    string
	client *http.Client
}

func (w *world) nodeHTTP() nodeHTTP {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	require.NoError(w, err)
	transport, err := rest.TransportFor(config)
	require.NoError(w, err)
	node := &corev1.Node{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Name: w.env.Name}, node))
	return nodeHTTP{
		w: w, client: &http.Client{Transport: transport},
		url: fmt.Sprintf("https://127.0.0.1:%d", node.Status.DaemonEndpoints.KubeletEndpoint.Port),
	}
}

// get returns the answer's status and text.
func (p nodeHTTP) get(path string) (int, string) {
	p.w.Helper()
	request, err := http.NewRequestWithContext(p.w.Context(), http.MethodGet, p.url+path, nil)
	require.NoError(p.w, err)
	response, err := p.client.Do(request)
	require.NoError(p.w, err)
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	require.NoError(p.w, err)
	return response.StatusCode, string(text)
}
