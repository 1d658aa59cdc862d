package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemarksOnAValidConfiguration(t *testing.T) {
	for sentence, tc := range map[string]struct {
		add  string
		want []string
	}{
		"nothing":                            {"", nil},
		"the own user":                       {"identity: [{user: gangline}]\n", nil},
		"a user that own cannot be":          {"identity: [{user: ada}]\n", []string{"identity[0].user is ada, and this is checked as gangline"}},
		"users by namespaces":                {"identity: [{user: \"{namespace}\"}]\n", []string{"for several choose setuid, sudo or ssh"}},
		"partitions without a partition":     {"partitions: [gpu, cpu]\n", []string{"partition is missing"}},
		"a partition that pods may not name": {"partition: gpu\npartitions: [cpu]\n", []string{"which is not among partitions"}},
		"a rule without the node's partition": {
			"partition: batch\nnodes: [{name: g, partition: gpu}]\nidentity: [{partitions: [gpu, cpu]}]\n",
			[]string{`identity[0].partitions lacks the partition "batch" of the virtual node hpc`},
		},
		"a rule with a partition of its own": {"partition: batch\nidentity: [{partition: gpu, partitions: [gpu, cpu]}]\n", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			c, err := load(t, validConfig+tc.add)
			require.NoError(t, err)
			got := c.Remarks("gangline")
			require.Len(t, got, len(tc.want), strings.Join(got, "\n"))
			for i, want := range tc.want {
				assert.Contains(t, got[i], want)
			}
		})
	}
}
