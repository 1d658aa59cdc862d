package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestCRDGetsTheKEPVersion(t *testing.T) {
	got, err := withKEPVersion([]byte(`
kind: CustomResourceDefinition
metadata: {name: sleds.example.org}
spec:
  versions:
  - name: v1alpha1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        description: a sled
        properties:
          dogs: {type: integer, maximum: 1048576, description: how many}
`))
	require.NoError(t, err)
	assert.YAMLEq(t, `
kind: CustomResourceDefinition
metadata: {name: sleds.example.org}
spec:
  conversion: {strategy: None}
  versions:
  - &version
    name: v1alpha1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        description: a sled
        properties:
          dogs: {type: integer, maximum: 1048576, description: how many}
  - <<: *version
    name: v2alpha1
    storage: false
`, string(got))
	assert.Contains(t, string(got), "maximum: 1048576\n", "numbers stay as they are written")
}

func TestCRDWithOtherVersionsIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ crd, message string }{
		"no version":      {`spec: {versions: []}`, "the CRD has 0 versions instead of v1alpha1 alone"},
		"two versions":    {`spec: {versions: [{name: v1alpha1}, {name: v1}]}`, "the CRD has 2 versions instead of v1alpha1 alone"},
		"another version": {`spec: {versions: [{name: v1}]}`, "the CRD's version is v1 instead of v1alpha1"},
		"no YAML":         {`spec: {`, "reading the CRD"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withKEPVersion([]byte(test.crd))
			assert.ErrorContains(t, err, test.message)
		})
	}
}

func TestDescriptionsEndBelowADepth(t *testing.T) {
	var schema any
	require.NoError(t, yaml.Unmarshal([]byte(`
description: the root
properties:
  spec:
    description: depth one
    properties:
      list:
        description: depth two
        type: array
        items:
          description: of depth two, as its list
          properties:
            name: {type: string, description: too deep}
      map:
        additionalProperties: {type: string, description: of depth two, as its map}
      description:
        description: a field of that name
        properties:
          description: {type: string, description: too deep}
`), &schema))
	text, err := yaml.Marshal(undescribed(schema, 2))
	require.NoError(t, err)
	assert.YAMLEq(t, `
description: the root
properties:
  spec:
    description: depth one
    properties:
      list:
        description: depth two
        type: array
        items:
          description: of depth two, as its list
          properties:
            name: {type: string}
      map:
        additionalProperties: {type: string, description: of depth two, as its map}
      description:
        description: a field of that name
        properties:
          description: {type: string}
`, string(text))
}
