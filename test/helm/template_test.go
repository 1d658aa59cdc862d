package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/config"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/golden"
)

const (
	chartDir = "../../charts/gangline"
	// kubeVersion is whom charts are rendered for: in tests Helm takes a very old one.
	kubeVersion = "v1.37.2"
)

func render(t *testing.T, args ...string) string {
	t.Helper()
	text, err := Run(t.Context(), append([]string{"template", "gangline", chartDir, "--namespace", "gangline-system", "--kube-version", kubeVersion}, args...)...)
	require.NoError(t, err)
	return text
}

// objects are the rendered objects of a kind.
func objects[T any](t *testing.T, text, kind string) []T {
	t.Helper()
	var all []T
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		if !strings.Contains(document, "\nkind: "+kind+"\n") {
			continue
		}
		var object T
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &object))
		all = append(all, object)
	}
	return all
}

func valuesFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestRenders(t *testing.T) {
	for _, values := range valuesFiles(t) {
		t.Run(filepath.Base(values), func(t *testing.T) {
			text := render(t, "--values", values)
			golden.Equal(t, strings.TrimSuffix(values, ".yaml")+".golden", text)

			_, err := Run(t.Context(), "lint", "--strict", chartDir, "--values", values, "--kube-version", kubeVersion)
			assert.NoError(t, err)
		})
	}
}

// TestConfigurationsAreValid: the programs themselves read what is rendered.
func TestConfigurationsAreValid(t *testing.T) {
	for _, values := range append(valuesFiles(t), "") {
		t.Run("values "+filepath.Base(values), func(t *testing.T) {
			var args []string
			if values != "" {
				args = []string{"--values", values}
			}
			text := render(t, args...)
			seen := 0
			for _, c := range objects[corev1.ConfigMap](t, text, "ConfigMap") {
				for key, data := range c.Data {
					file := filepath.Join(t.TempDir(), key)
					require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
					var err error
					switch key {
					case "gangline.json": // the dashboard; test/dashboard reads its queries
						assert.True(t, json.Valid([]byte(data)), c.Name)
					case "node.yaml":
						_, err = provider.LoadConfig(file, func(c *provider.Config) {
							if c.Kubelet.Address == "" {
								c.Kubelet.Address = "10.1.2.3" // as --address does
							}
						})
					default:
						_, err = config.Load(file, "")
					}
					assert.NoError(t, err, c.Name)
					seen++
				}
			}
			assert.NotZero(t, seen)
		})
	}
}

func TestRuntimes(t *testing.T) {
	names := func(args ...string) (names []string, clusters map[string]bool) {
		clusters = map[string]bool{}
		for _, r := range objects[v1alpha1.ClusterTrainingRuntime](t, render(t, args...), "ClusterTrainingRuntime") {
			assert.Equal(t, "disabled", r.Labels["trainer.kubeflow.org/webhook-validation"], "nobody is there yet to admit %s", r.Name)
			names = append(names, r.Name)
			clusters[r.Annotations["gangline.dev/cluster"]] = true
		}
		return names, clusters
	}
	files := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(chartDir, "files", "runtimes", pattern))
		require.NoError(t, err)
		for i, file := range found {
			found[i] = strings.TrimSuffix(filepath.Base(file), ".yaml")
		}
		return found
	}
	kubeflow, hpc := files("*.yaml"), files("hpc/*.yaml")

	all, clusters := names()
	assert.ElementsMatch(t, append(kubeflow, hpc...), all)
	assert.Equal(t, map[string]bool{"": true, "default": true}, clusters)

	some, clusters := names("--set", "runtimes.kubeflow=false,runtimes.cluster=jupiter,runtimes.except={mpi-distributed-hpc}")
	assert.Len(t, some, len(hpc)-1)
	assert.NotContains(t, some, "mpi-distributed-hpc")
	assert.Equal(t, map[string]bool{"jupiter": true}, clusters)

	none, _ := names("--set", "controller.enabled=false")
	assert.Empty(t, none)
}

// TestAControllerOutside has its rights and its webhooks in the cluster, and no Deployment
// that would never be ready.
func TestAControllerOutside(t *testing.T) {
	text := render(t, "--values", "testdata/everything.yaml", "--set", "controller.outsideURL=https://login.example.org:9443/")
	for _, kind := range []string{"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"} {
		for _, o := range objects[unstructured.Unstructured](t, text, kind) {
			assert.NotEqual(t, "kubeflow-trainer-controller-manager", o.GetName(), kind)
		}
	}
	assert.Contains(t, text, "url: https://login.example.org:9443/validate-trainer-kubeflow-org-v1alpha1-trainjob\n")
	assert.NotContains(t, text, "path: /validate-trainer")
	assert.NotEmpty(t, objects[unstructured.Unstructured](t, text, "ValidatingWebhookConfiguration"))
	certificates := objects[unstructured.Unstructured](t, text, "Certificate")
	require.Len(t, certificates, 1)
	names, _, err := unstructured.NestedStringSlice(certificates[0].Object, "spec", "dnsNames")
	require.NoError(t, err)
	assert.Contains(t, names, "login.example.org")
}

// TestATokenThatLasts is for a controller outside: the one of the notes ends after a day.
func TestATokenThatLasts(t *testing.T) {
	anyKubernetes := t.TempDir() // an installation asks for the cluster's version, which in tests is a very old one
	require.NoError(t, os.CopyFS(anyKubernetes, os.DirFS(chartDir)))
	chart, err := os.ReadFile(filepath.Join(chartDir, "Chart.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(anyKubernetes, "Chart.yaml"), []byte(strings.Replace(string(chart), "kubeVersion:", "# ", 1)), 0o600))
	notes := func(set string) string {
		text, err := Run(t.Context(), "install", "gangline", anyKubernetes, "--namespace", "kubeflow-system", "--dry-run=client", "--set", set)
		require.NoError(t, err)
		_, notes, ok := strings.Cut(text, "\nNOTES:\n")
		require.True(t, ok)
		return notes
	}
	const outside = "controller.outsideURL=https://login.example.org:9443"
	assert.Empty(t, objects[corev1.Secret](t, render(t, "--set", outside), "Secret"))
	assert.Contains(t, notes(outside), "That one ends after a day")
	assert.NotContains(t, notes(outside), "something between them")
	assert.Contains(t, notes(outside), "--cert-dns-name login.example.org")

	secrets := objects[corev1.Secret](t, render(t, "--set", outside+",controller.token=true"), "Secret")
	require.Len(t, secrets, 1)
	assert.Equal(t, corev1.SecretTypeServiceAccountToken, secrets[0].Type)
	assert.Equal(t, "kubeflow-trainer-controller-manager", secrets[0].Annotations[corev1.ServiceAccountNameKey])
	assert.Contains(t, notes(outside+",controller.token=true"), "get secret "+secrets[0].Name)

	assert.Contains(t, notes("controller.outsideURL=https://login.example.org"), "The URL's port is 443 and the controller listens at 9443")
}

// TestAnotherConfigurationMakesNewPods, except one that is read while they run.
func TestAnotherConfigurationMakesNewPods(t *testing.T) {
	template := func(set string) corev1.PodTemplateSpec {
		all := objects[appsv1.Deployment](t, render(t, "--values", "testdata/everything.yaml", "--set", set), "Deployment")
		for _, d := range all {
			if d.Name == "gangline-node-hpc" {
				return d.Spec.Template
			}
		}
		require.Fail(t, "no Deployment of the node")
		return corev1.PodTemplateSpec{}
	}
	before := template("nodes.hpc.config.partition=gpu")
	assert.NotEqual(t, before, template("nodes.hpc.config.partition=cpu"))
	assert.Equal(t, before, template("nodes.hpc.config.partition=gpu,nodes.hpc.config.identity[0].user=bob"))
}
