package helm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSchemaRefuses(t *testing.T) {
	for name, test := range map[string]struct{ values, message string }{
		"a value that is not known": {
			"controler: {enabled: false}", "additional properties 'controler' not allowed",
		},
		"a certificate authority that is not known": {
			"certificates: {by: letsencrypt}", "at '/certificates/by': value must be one of 'self', 'cert-manager'",
		},
		"certificates by two authorities": {
			"controller: {config: {certManagement: {enable: true}}}", "controller.config.certManagement.enable is what the value certificates.by says",
		},
		"a negative number of replicas": {
			"controller: {replicas: -1}", "at '/controller/replicas': minimum: got -1, want 0",
		},
		"a status server without encryption": {
			"controller: {hpcStatusURL: 'http://gateway'}", "at '/controller/hpcStatusURL'",
		},
		"a node that says not where it runs": {
			"nodes: {hpc: {config: {spool: /s, workloadManager: slurm}}}", "missing property 'location'",
		},
		"a node without a spool": {
			"nodes: {hpc: {location: inside, config: {workloadManager: slurm}}}", "missing property 'spool'",
		},
		"a node in another namespace than its rights": {
			"nodes: {hpc: {location: inside, config: {namespace: x, spool: /s, workloadManager: slurm}}}", "nodes.hpc.config.namespace cannot be set: the rights are for the release's namespace",
		},
		"pods' settings for a node outside": {
			"nodes: {hpc: {location: outside, replicas: 2, config: {spool: /s, workloadManager: slurm, kubelet: {}}}}", "nodes.hpc.replicas is for pods, and with location outside there is none",
		},
		"a node outside that nobody reaches": {
			"nodes: {hpc: {location: outside, config: {spool: /s, workloadManager: slurm}}}", "missing property 'kubelet'",
		},
		"a token for a node inside": {
			"nodes: {hpc: {location: inside, token: true, config: {spool: /s, workloadManager: slurm}}}", "nodes.hpc.token is for a program outside of the cluster, and location is inside",
		},
		"a node that is root": {
			"nodes: {hpc: {location: inside, runAsUser: 0, config: {spool: /s, workloadManager: slurm}}}", "runAsUser': minimum: got 0, want 1",
		},
		"a node's name that no object can have": {
			"nodes: {HPC_1: {location: inside, config: {spool: /s, workloadManager: slurm}}}", "invalid propertyName 'HPC_1'",
		},
		"a setting that no node knows": {
			"nodes: {hpc: {location: inside, config: {partiton: gpu, spool: /s, workloadManager: slurm}}}", "at '/nodes/hpc/config': additional properties 'partiton' not allowed",
		},
		"a setting of a rule that no node knows": {
			"nodes: {hpc: {location: inside, config: {spool: /s, workloadManager: slurm, identity: [{usr: ada}]}}}", "at '/nodes/hpc/config/identity/0': additional properties 'usr' not allowed",
		},
		"a setting of another kind": {
			"nodes: {hpc: {location: inside, config: {spool: /s, workloadManager: slurm, queueFactor: ten}}}", "at '/nodes/hpc/config/queueFactor': got string, want integer",
		},
		"a setting that no controller knows": {
			"controller: {config: {leaderElecton: {}}}", "at '/controller/config': additional properties 'leaderElecton' not allowed",
		},
		"nodes of which nothing would be made": {
			"node: {enabled: false}\nnodes: {hpc: {location: inside, config: {spool: /s, workloadManager: slurm}}}", "nodes has hpc, and node.enabled is false",
		},
		"a runtime that there is not": {
			"runtimes: {except: [torch]}", "runtimes.except names torch, which is no runtime of this chart. It has deepspeed-distributed, ",
		},
		"a controller outside that is reached without encryption": {
			"controller: {outsideURL: 'http://here:9443'}", "at '/controller/outsideURL'",
		},
		"a controller outside at an address": {
			"controller: {outsideURL: 'https://10.0.0.5:9443'}", "controller.outsideURL is https://10.0.0.5:9443, whose host is an address",
		},
		"a controller outside at an address of IPv6": {
			"controller: {outsideURL: 'https://[fd00::5]:9443'}", "whose host is an address",
		},
		"a controller outside nowhere": {
			"controller: {outsideURL: 'https://'}", "which names no host",
		},
		"a token for a controller inside": {
			"controller: {token: true}", "controller.token is for a controller outside of the cluster",
		},
		"a time without its unit": {
			"nodes: {hpc: {location: inside, config: {jobInterval: 5, spool: /s, workloadManager: slurm}}}", "at '/nodes/hpc/config/jobInterval': value must be 'a time with its unit, as in 5s or 2m'",
		},
		"an open door for metrics": {
			"networkPolicy: {metricsFrom: []}", "at '/networkPolicy/metricsFrom'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(file, []byte(test.values), 0o600))
			_, err := Run(t.Context(), "template", "gangline", chartDir, "--values", file, "--kube-version", kubeVersion)
			assert.ErrorContains(t, err, test.message)
		})
	}
}
