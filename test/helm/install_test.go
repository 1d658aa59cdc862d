package helm

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gangline/gangline/test/harness"
)

// namespace is where the chart is installed.
const namespace = "gangline-system"

// cluster is a control plane, and Helm on it.
type cluster struct {
	*testing.T
	control *harness.ControlPlane
	root    string
}

func start(t *testing.T) *cluster {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	c := &cluster{T: t, root: root}
	c.control, err = harness.StartControlPlane(t.Context(), filepath.Join(root, "bin"), t.TempDir(), t.Output())
	require.NoError(t, err, "make devcluster builds it")
	t.Cleanup(func() { assert.NoError(t, c.control.Stop(context.Background())) })
	return c
}

func (c *cluster) kubectl(stdin string, args ...string) string {
	c.Helper()
	out, err := c.control.Kubectl(c.Context(), stdin, args...)
	require.NoError(c, err)
	return out
}

func (c *cluster) helm(args ...string) string {
	c.Helper()
	out, err := Run(c.Context(), append(args, "--kubeconfig", c.control.Kubeconfig(), "--namespace", namespace)...)
	require.NoError(c, err)
	return out
}

// neighbours installs the CRDs of those that the chart can work with.
func (c *cluster) neighbours() {
	c.Helper()
	for module, files := range map[string][]string{
		"github.com/prometheus-operator/prometheus-operator@v0.85.0": {"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"},
		"github.com/cert-manager/cert-manager@v1.21.2":               {"deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml"},
	} {
		out, err := exec.CommandContext(c.Context(), "go", "mod", "download", "-json", module).Output()
		require.NoError(c, err)
		var found struct{ Dir string }
		require.NoError(c, json.Unmarshal(out, &found))
		for _, file := range files {
			c.kubectl("", "create", "-f", filepath.Join(found.Dir, file))
		}
	}
	c.kubectl("", "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
}

// ours are the objects that Helm has made and not removed.
func (c *cluster) ours() []string {
	c.Helper()
	kinds := strings.Fields(c.kubectl("", "api-resources", "--verbs=list,delete", "-o", "name"))
	out := c.kubectl("", "get", strings.Join(kinds, ","), "--all-namespaces", "--selector", "app.kubernetes.io/managed-by=Helm", "-o", "name", "--ignore-not-found")
	return strings.Fields(out)
}

// TestLifeOfARelease: the API server takes all of it, and a release may change
// and go.
func TestLifeOfARelease(t *testing.T) {
	c := start(t)
	c.neighbours()

	notes := c.helm("install", "gangline", chartDir, "--create-namespace", "--set", "runtimes.except={mlx-distributed}")
	assert.Contains(t, notes, "rollout status deployment/kubeflow-trainer-controller-manager")
	assert.Contains(t, notes, "There is no virtual node yet")
	assert.Contains(t, c.kubectl("", "get", "clustertrainingruntimes", "-o", "name"), "torch-distributed-hpc")
	before := c.ours()
	assert.NotEmpty(t, before)

	// What others write stays: the controller tells the API server of its authority,
	// and a user has a TrainJob.
	authority := base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n"))
	for _, kind := range []string{"mutatingwebhookconfiguration/defaulter.trainer.kubeflow.org", "validatingwebhookconfiguration/validator.trainer.kubeflow.org"} {
		c.kubectl("", "patch", kind, "--type=json", "--field-manager=gangline-controller", "-p",
			`[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "`+authority+`"}]`)
	}

	c.helm("upgrade", "gangline", chartDir, "--values", "testdata/everything.yaml", "--set", "certificates.by=self", "--set", "runtimes.hpc=true")
	for _, kind := range []string{"mutatingwebhookconfiguration/defaulter.trainer.kubeflow.org", "validatingwebhookconfiguration/validator.trainer.kubeflow.org"} {
		assert.Equal(t, authority, c.kubectl("", "get", kind, "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}"), kind)
	}
	after := c.ours()
	for _, added := range []string{
		"deployment.apps/gangline-node-hpc", "configmap/gangline-node-hpc",
		"poddisruptionbudget.policy/gangline-node-hpc", "poddisruptionbudget.policy/kubeflow-trainer-controller-manager",
		"podmonitor.monitoring.coreos.com/gangline-node", "podmonitor.monitoring.coreos.com/kubeflow-trainer-controller-manager",
		"networkpolicy.networking.k8s.io/gangline-node", "clustertrainingruntime.trainer.kubeflow.org/mpi-distributed-hpc",
	} {
		assert.Contains(t, after, added)
		assert.True(t, strings.HasSuffix(added, "mpi-distributed-hpc") || !slices.Contains(before, added), added)
	}
	assert.NotContains(t, after, "clustertrainingruntime.trainer.kubeflow.org/torch-distributed", "Kubeflow's runtimes are not wanted any more")

	c.helm("upgrade", "gangline", chartDir, "--values", "testdata/everything.yaml")
	after = c.ours()
	assert.Contains(t, after, "certificate.cert-manager.io/kubeflow-trainer-webhook")
	assert.Contains(t, after, "issuer.cert-manager.io/kubeflow-trainer-webhook")
	c.helm("rollback", "gangline", "1")
	assert.ElementsMatch(t, before, c.ours())

	c.helm("uninstall", "gangline")
	assert.Empty(t, c.ours())
	crds := c.kubectl("", "get", "crd", "-o", "name")
	for _, kind := range []string{"trainjobs", "trainingruntimes", "clustertrainingruntimes"} {
		assert.Contains(t, crds, kind+".trainer.kubeflow.org", "TrainJobs outlive the chart")
	}
}

// TestPlainManifests are for those who have no Helm.
func TestPlainManifests(t *testing.T) {
	c := start(t)
	manifests := filepath.Join(c.root, "charts", "manifests")
	for range 2 { // an upgrade is the same command
		c.kubectl("", "apply", "--server-side", "-k", filepath.Join(manifests, "controller"))
		c.kubectl("", "apply", "--server-side", "-k", filepath.Join(manifests, "node"))
	}
	for _, object := range []string{"deployment/kubeflow-trainer-controller-manager", "service/kubeflow-trainer-controller-manager"} {
		c.kubectl("", "--namespace", "kubeflow-system", "get", object)
	}
	c.kubectl("", "--namespace", "gangline-system", "get", "serviceaccount/gangline-node")
}

// TestASitesOwnManifests are rendered and applied without Helm, as the documentation says:
// the commands are those that it prints.
func TestASitesOwnManifests(t *testing.T) {
	c := start(t)
	out := filepath.Join(t.TempDir(), "manifests")
	for range 2 { // it may be rendered again, over what it wrote
		render := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", c.root, "manifests",
			"VALUES="+filepath.Join(c.root, "test", "helm", "testdata", "outside.yaml"), "OUT="+out, "NAMESPACE="+namespace)
		var notes bytes.Buffer
		render.Stderr = &notes
		text, err := render.Output()
		require.NoError(t, err, notes.String())
		assert.Contains(t, notes.String(), "get secret gangline-node-hpc-token")
		for line := range strings.Lines(string(text)) {
			c.kubectl("", strings.Fields(strings.TrimPrefix(line, "kubectl "))...)
		}
	}
	c.kubectl("", "--namespace", namespace, "get", "configmap/gangline-node-hpc", "secret/gangline-node-hpc-token", "serviceaccount/gangline-node")

	other := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(other, "thesis.tex"), nil, 0o600))
	text, err := exec.CommandContext(t.Context(), "make", "-C", c.root, "manifests", "VALUES="+filepath.Join(c.root, "test", "helm", "testdata", "outside.yaml"), "OUT="+other).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(text), "has other files in it")
}

// TestANodeOutside is what an administrator does: install the chart, take the
// configuration and the token that its notes name to the login node, and start
// gangline-node there.
func TestANodeOutside(t *testing.T) {
	c := start(t)
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), filepath.Join(c.root, "bin", "devcluster"), "node-credentials",
		"--dir", filepath.Dir(c.control.Kubeconfig()), "--name", "hpc", "--user", "nobody-special", "--out", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	values := filepath.Join(dir, "values.yaml")
	require.NoError(t, os.WriteFile(values, fmt.Appendf(nil, `
controller: {enabled: false}
nodes:
  hpc:
    location: outside
    token: true
    config:
      spool: %[1]s/spool
      agent: %[2]s/bin/gangline-agent
      workloadManager: local
      local: {stateDir: %[1]s/local, nodes: [{name: one, cpus: 2, memoryMiB: 1024}]}
      metricsAddress: 127.0.0.1:%[4]d
      kubelet: {address: 127.0.0.1, port: %[3]d, certFile: %[1]s/serving.crt, keyFile: %[1]s/serving.key, clientCAFile: %[1]s/client-ca.crt}
`, dir, c.root, freePort(t), freePort(t)), 0o600))
	notes := c.helm("install", "gangline", chartDir, "--create-namespace", "--values", values)
	assert.Contains(t, notes, "get configmap gangline-node-hpc -o jsonpath='{.data.node\\.yaml}'")
	assert.Contains(t, notes, "get secret gangline-node-hpc-token -o jsonpath='{.data.token}'")

	config := c.kubectl("", "--namespace", namespace, "get", "configmap", "gangline-node-hpc", "-o", `jsonpath={.data.node\.yaml}`)
	c.kubectl("", "--namespace", namespace, "wait", "secret/gangline-node-hpc-token", "--for=jsonpath={.data.token}", "--timeout=30s")
	token, err := base64.StdEncoding.DecodeString(c.kubectl("", "--namespace", namespace, "get", "secret", "gangline-node-hpc-token", "-o", "jsonpath={.data.token}"))
	require.NoError(t, err)
	file := filepath.Join(dir, "node.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))

	var log bytes.Buffer
	node := exec.CommandContext(t.Context(), filepath.Join(c.root, "bin", "gangline-node"), "run", "--config", file, "--kubeconfig", c.kubeconfig(dir, string(token)))
	node.Stdout, node.Stderr = &log, &log
	node.Cancel = func() error { return node.Process.Signal(os.Interrupt) }
	node.WaitDelay = 30 * time.Second
	require.NoError(t, node.Start(), "make build makes it")
	defer func() {
		_ = node.Process.Signal(os.Interrupt)
		_ = node.Wait()
		if t.Failed() {
			t.Logf("gangline-node said:\n%s", log.String())
		}
	}()
	c.kubectl("", "wait", "node/hpc", "--for=create", "--timeout=1m")
	c.kubectl("", "wait", "node/hpc", "--for=condition=Ready", "--timeout=1m")
	c.kubectl(`
apiVersion: v1
kind: Pod
metadata: {name: hello}
spec:
  restartPolicy: Never
  nodeSelector: {gangline.dev/cluster: default}
  tolerations: [{operator: Exists}]
  containers:
  - {name: hello, image: host, command: [echo, hello from outside]}
`, "create", "-f", "-")
	c.kubectl("", "wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=1m")
	assert.Equal(t, "hello from outside\n", c.kubectl("", "logs", "hello"))
	c.kubectl("", "delete", "pod", "hello", "--timeout=1m")
	assert.NotContains(t, log.String(), "forbidden")
}

// kubeconfig is of the ServiceAccount, by its token.
func (c *cluster) kubeconfig(dir, token string) string {
	c.Helper()
	config, err := clientcmd.LoadFromFile(c.control.Kubeconfig())
	require.NoError(c, err)
	user := config.Contexts[config.CurrentContext].AuthInfo
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	file := filepath.Join(dir, "kubeconfig.token")
	require.NoError(c, clientcmd.WriteToFile(*config, file))
	return file
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close() //nolint:errcheck // only its port is wanted
	return l.Addr().(*net.TCPAddr).Port
}
