package manager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/config"
	"github.com/gangline/gangline/controller/trainertest"
	"github.com/gangline/gangline/test/golden"
)

func charts(path ...string) string {
	return filepath.Join(append([]string{"..", "..", "charts"}, path...)...)
}

func TestTheWebhookManifestIsTheGeneratedOne(t *testing.T) {
	c, err := config.Load("", "")
	require.NoError(t, err)
	text, err := WebhookManifest(c, DefaultNamespace, "")
	require.NoError(t, err)
	text = append([]byte("# Written by gangline-controller webhooks.\n"), text...)
	golden.Equal(t, charts("gangline", "files", "webhooks.yaml"), string(text))
}

func TestWebhooksByURL(t *testing.T) {
	c, err := config.Load("", "")
	require.NoError(t, err)
	objects := WebhookConfigurations(c, "ignored", "https://localhost:9443/")
	require.Len(t, objects, 2)
	var urls []string
	for _, w := range objects[0].(*admissionv1.MutatingWebhookConfiguration).Webhooks {
		assert.Nil(t, w.ClientConfig.Service)
		urls = append(urls, *w.ClientConfig.URL)
	}
	for _, w := range objects[1].(*admissionv1.ValidatingWebhookConfiguration).Webhooks {
		assert.Nil(t, w.ClientConfig.Service)
		urls = append(urls, *w.ClientConfig.URL)
	}
	assert.Equal(t, []string{
		"https://localhost:9443/mutate-trainer-kubeflow-org-v1alpha1-trainjob",
		"https://localhost:9443/validate-trainer-kubeflow-org-v1alpha1-clustertrainingruntime",
		"https://localhost:9443/validate-trainer-kubeflow-org-v1alpha1-trainingruntime",
		"https://localhost:9443/validate-trainer-kubeflow-org-v1alpha1-trainjob",
	}, urls)
}

// document is the object of a kind in a file that the chart renders.
func document(t *testing.T, file, kind string) string {
	t.Helper()
	text, err := os.ReadFile(charts("manifests", "controller", file))
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: "+kind+"\n") {
			return document
		}
	}
	require.Fail(t, "it has none", "%s in %s", kind, file)
	return ""
}

func TestTheChartsConfigurationIsValidAndFitsTheDeployment(t *testing.T) {
	configMap := trainertest.Parse[corev1.ConfigMap](t, document(t, "config.yaml", "ConfigMap"))
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(configMap.Data["controller_manager_config.yaml"]), 0o600))
	c, err := config.Load(file, "")
	require.NoError(t, err)

	deployment := trainertest.Parse[appsv1.Deployment](t, document(t, "manager.yaml", "Deployment"))
	service := trainertest.Parse[corev1.Service](t, document(t, "manager.yaml", "Service"))
	assert.Equal(t, c.CertManagement.WebhookServiceName, service.Name, "the certificate is for this name")
	assert.Equal(t, deployment.Spec.Template.Labels, service.Spec.Selector)
	container := deployment.Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	assert.Equal(t, map[string]int32{
		"health": 8081, "metrics": 8443, "webhook": *c.Webhook.Port, "status-server": *c.StatusServer.Port,
	}, ports)
	assert.Equal(t, ":8081", c.Health.HealthProbeBindAddress)
	assert.Equal(t, ":8443", c.Metrics.BindAddress)
	assert.Equal(t, "/"+c.Health.ReadinessEndpointName, container.ReadinessProbe.HTTPGet.Path)
	assert.Equal(t, "/"+c.Health.LivenessEndpointName, container.LivenessProbe.HTTPGet.Path)
}
