package provider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const validConfig = `
apiVersion: config.gangline.dev/v1alpha1
kind: NodeConfiguration
nodeName: hpc
spool: /shared/gangline
agent: /shared/bin/gangline-agent
workloadManager: slurm
kubelet: {address: 10.0.0.5, certFile: /c, keyFile: /k, clientCAFile: /a}
`

func load(t *testing.T, text string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return LoadConfig(path)
}

func TestConfigDefaults(t *testing.T) {
	c, err := load(t, validConfig)
	require.NoError(t, err)
	assert.Equal(t, "default", c.Cluster)
	assert.Equal(t, 10, c.QueueFactor)
	assert.Equal(t, "nvidia.com/gpu", c.GPUResource)
	assert.Equal(t, 2*time.Minute, c.AllocationGrace.Duration)
	assert.EqualValues(t, 10250, c.Kubelet.Port)
	assert.Equal(t, "/shared/gangline/.hpc.lock", c.Lock)
}

func TestConfigErrorsNameTheField(t *testing.T) {
	cases := map[string]struct{ add, says string }{
		"an unknown field":                 {"partiton: gpu\n", `unknown field "partiton"`},
		"a relative spool":                 {"spool: shared\n", "spool must be an absolute path"},
		"an unknown workload manager":      {"workloadManager: pbs\n", "workloadManager must be slurm, flux or local"},
		"local without nodes":              {"workloadManager: local\n", "local.nodes"},
		"a negative queue factor":          {"queueFactor: -1\n", "queueFactor must be 1 or more"},
		"a time that is none":              {"jobInterval: soon\n", "soon"},
		"a negative interval":              {"inventoryInterval: -1s\n", "inventoryInterval must be 1s or more"},
		"an interval that is too short":    {"spoolInterval: 1ns\n", "spoolInterval must be 20ms or more"},
		"a negative patience":              {"releaseTimeout: -1s\n", "releaseTimeout must be 0s or more"},
		"room for no pod":                  {"maxPods: -1\n", "maxPods must be 1 or more"},
		"a further node without room":      {"nodes: [{name: b, partition: gpu, maxPods: -1}]\n", "b: maxPods must be 1 or more"},
		"a cluster that is no label":       {"cluster: a b\n", "cannot be a label's value"},
		"another kind":                     {"kind: Deployment\n", "NodeConfiguration"},
		"a relative hostPath":              {"hostPaths: [data]\n", "hostPaths must be absolute"},
		"a kubelet without a certificate":  {"kubelet: {address: 10.0.0.5}\n", "certFile"},
		"two certificates":                 {"kubelet: {address: 10.0.0.5, certFile: /c, keyFile: /k, certDir: /d, clientCAFile: /a}\n", "certDir"},
		"a relative certDir":               {"kubelet: {address: 10.0.0.5, certDir: d, clientCAFile: /a}\n", "certDir"},
		"a label that is none":             {"nodeLabels: {a b: c}\n", "cannot be a label"},
		"a label of the node's own":        {"nodeLabels: {kubernetes.io/hostname: c}\n", "sets kubernetes.io/hostname itself"},
		"a taint without an effect":        {"nodeTaints: [{key: a}]\n", "the effect of a must be"},
		"a taint of the node's own":        {"nodeTaints: [{key: virtual-kubelet.io/provider, effect: NoSchedule}]\n", "itself"},
		"a resource that is none":          {"resources: {amd.com/gpu: \"a:b:c\"}\n", "is no generic resource"},
		"an option that changes the user":  {"slurm: {allowedFlags: [uid]}\n", "--uid cannot be allowed"},
		"a privilege for a PriorityClass":  {"priorityClasses: {high: -10}\n", "priorityClasses: high"},
		"two nodes of one name":            {"nodes: [{name: hpc, partition: gpu}]\n", "two nodes have the name"},
		"a further node's label":           {"nodes: [{name: b, partition: gpu, nodeLabels: {a b: c}}]\n", "cannot be a label"},
		"a variable of Gangline's own":     {"environment: [{name: GANGLINE_RANK, value: x}]\n", "GANGLINE_RANK is Gangline's own"},
		"a limit that is none":             {"limits: {luck: 1}\n", "limits.luck: there is no such limit"},
		"a scratch rule without a job":     {"volumes: {scratch: \"/local/{pod}\"}\n", "there is no field {pod}"},
		"a default claim that is not last": {"volumes: {claims: [{default: true, path: /a}, {storageClass: c, path: /b}]}\n", "put it last"},
		"an image without a program":       {"images: [{name: a}]\n", "entrypoint or cmd"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			// The last of two equal keys would be an error of its own.
			text := validConfig
			key, _, _ := strings.Cut(c.add, ":")
			text = withoutKey(text, key) + c.add
			_, err := load(t, text)
			assert.ErrorContains(t, err, c.says)
		})
	}
	_, err := load(t, withoutKey(validConfig, "access")+"access: {mode: sudo}\nidentity: [{user: ada}]\n")
	assert.ErrorContains(t, err, "spool must have {user} in it")
	assert.NotContains(t, err.Error(), "lock", "which nobody has set")
	_, err = LoadConfig("/nowhere/node.yaml")
	assert.ErrorContains(t, err, "/nowhere/node.yaml")
}

func withoutKey(text, key string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, key+":") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
