package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestErrorsAreWithoutHelmsNoise(t *testing.T) {
	for sentence, tc := range map[string]struct{ said, want string }{
		"what the chart refuses": {
			"helm template: execution error at (gangline/templates/validate.yaml:1:4): nodes has hpc, and node.enabled is false\n\nUse --debug flag to render out invalid YAML",
			"nodes has hpc, and node.enabled is false",
		},
		"what the schema refuses": {
			"helm template: values don't meet the specifications of the schema(s) in the following chart(s):\ngangline:\n- at '/nodes/hpc': 'allOf' failed\n  - at '/nodes/hpc/config': missing property 'spool'\n",
			"values don't meet the specifications of the schema(s) in the following chart(s):\ngangline:\n  - at '/nodes/hpc/config': missing property 'spool'",
		},
	} {
		t.Run(sentence, func(t *testing.T) { assert.Equal(t, tc.want, plain(tc.said)) })
	}
}
