package helm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestTheProvisionersRightsAreGivenWhereItIsOn: and nowhere else.
func TestTheProvisionersRightsAreGivenWhereItIsOn(t *testing.T) {
	const node = "nodes.hpc.location=inside,nodes.hpc.config.spool=/s,nodes.hpc.config.workloadManager=slurm,nodes.hpc.config.access.mode=ssh"
	for sentence, tc := range map[string]struct {
		set  string
		want bool
	}{
		"not by default":                       {node, false},
		"where a node makes volumes":           {node + ",nodes.hpc.config.volumes.provision=true", true},
		"where it is wanted":                   {"node.provisioner=true", true},
		"not where the node itself is not":     {"node.enabled=false,node.provisioner=true", false},
		"not where a node says that it is not": {node + ",nodes.hpc.config.volumes.provision=false", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			found := false
			for _, role := range objects[rbacv1.ClusterRole](t, render(t, "--set", tc.set), "ClusterRole") {
				found = found || role.Name == "gangline-node-provisioner"
			}
			assert.Equal(t, tc.want, found)
		})
	}
}
