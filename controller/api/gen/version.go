package main

import (
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"
)

const (
	storedVersion = "v1alpha1"
	kepVersion    = "v2alpha1"

	// describedDepth is how deep below its root the copy of a schema keeps its
	// descriptions. kubectl takes v2alpha1 for the newer version and explains
	// that one; the many descriptions of pods and Jobs further down would double
	// a Helm release, which has to fit into one Secret.
	describedDepth = 4
)

// withKEPVersion adds v2alpha1 to a CRD that has v1alpha1 only.
func withKEPVersion(crd []byte) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(crd, &object); err != nil {
		return nil, fmt.Errorf("reading the CRD: %w", err)
	}
	spec, _ := object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	if len(versions) != 1 {
		return nil, fmt.Errorf("the CRD has %d versions instead of %s alone", len(versions), storedVersion)
	}
	stored, _ := versions[0].(map[string]any)
	if stored["name"] != storedVersion {
		return nil, fmt.Errorf("the CRD's version is %v instead of %s", stored["name"], storedVersion)
	}
	schema, _ := stored["schema"].(map[string]any)

	kep := maps.Clone(stored)
	kep["name"], kep["storage"] = kepVersion, false
	kep["schema"] = map[string]any{"openAPIV3Schema": undescribed(schema["openAPIV3Schema"], describedDepth)}
	spec["versions"] = []any{stored, kep}
	spec["conversion"] = map[string]any{"strategy": "None"}

	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("writing the CRD: %w", err)
	}
	return append([]byte("---\n"), text...), nil
}

// undescribed copies a schema without the descriptions of fields that are more
// than depth fields below it. Below "properties" the keys are names of fields,
// and a field may be called "description".
func undescribed(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	c := maps.Clone(s)
	if depth < 0 {
		delete(c, "description")
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if sub, ok := c[key]; ok {
			c[key] = undescribed(sub, depth)
		}
	}
	if fields, ok := c["properties"].(map[string]any); ok {
		bare := make(map[string]any, len(fields))
		for name, field := range fields {
			bare[name] = undescribed(field, depth-1)
		}
		c["properties"] = bare
	}
	return c
}
