package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiWrites are gangline-node's writes to the API server so far, by resource.
func (b *bench) apiWrites(ctx context.Context) (map[string]float64, error) {
	clientset, err := kubernetes.NewForConfig(b.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	node, err := clientset.CoreV1().Nodes().Get(ctx, b.env.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for the node's port: %w", err)
	}
	// The API server's proxy goes to no loopback address, so the node is asked itself.
	transport, err := rest.TransportFor(b.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	text, err := get(ctx, &http.Client{Transport: transport}, fmt.Sprintf("https://127.0.0.1:%d/metrics", node.Status.DaemonEndpoints.KubeletEndpoint.Port))
	if err != nil {
		return nil, err
	}
	return sumBy(text, "gangline_api_writes_total", "resource")
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("reading metrics: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	if err != nil {
		return "", fmt.Errorf("reading metrics at %s: %w", url, err)
	}
	return string(text), nil
}

// sumBy adds up a counter's series by the value of a label.
func sumBy(text, metric, label string) (map[string]float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	sums := map[string]float64{}
	for _, m := range families[metric].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label {
				sums[l.GetValue()] += m.GetCounter().GetValue()
			}
		}
	}
	return sums, nil
}
