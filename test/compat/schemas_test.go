package compat

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Reflection sees no markers: list types, defaults, limits and CEL rules are in
// the CRDs only.
func TestCRDsAreTheSame(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/kubeflow/trainer/v2").Output()
	require.NoError(t, err, "finding Kubeflow Trainer's module")
	theirDir := filepath.Join(strings.TrimSpace(string(out)), "manifests", "base", "crds")
	const mpiImplementations = ".schema.openAPIV3Schema.properties.spec.properties.mlPolicy.properties.mpi.properties.mpiImplementation.enum"
	// Their words, and what to do.
	said := func(field string) string {
		return fmt.Sprintf(".spec.versions.v1alpha1.schema.openAPIV3Schema.properties.spec.properties.%s.x-kubernetes-validations: "+
			"theirs: [map[message:field is immutable rule:self == oldSelf]]; "+
			"ours: [map[message:field is immutable: delete the TrainJob first, or give this one another name rule:self == oldSelf]]", field)
	}
	for name, allowed := range map[string][]string{
		"trainer.kubeflow.org_trainjobs.yaml": {
			".spec.names.shortNames: theirs: <nil>; ours: [tj]",
			said("runtimeRef"), said("trainer"),
		},
		"trainer.kubeflow.org_trainingruntimes.yaml": {
			".spec.versions.v1alpha1" + mpiImplementations + ": theirs: [OpenMPI ]; ours: [OpenMPI Intel MPICH ]",
		},
		"trainer.kubeflow.org_clustertrainingruntimes.yaml": {
			".spec.versions.v1alpha1" + mpiImplementations + ": theirs: [OpenMPI ]; ours: [OpenMPI Intel MPICH ]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := readCRD(t, filepath.Join(theirDir, name))
			ours := readCRD(t, filepath.Join("..", "..", "charts", "gangline", "crds", name))

			versions := ours["spec"].(map[string]any)["versions"].(map[string]any)
			kep := versions["v2alpha1"].(map[string]any)
			assert.Equal(t, false, kep["storage"])
			kep["name"], kep["storage"] = "v1alpha1", true
			assert.Equal(t, versions["v1alpha1"], versions["v2alpha1"], "v2alpha1 is v1alpha1, not stored")
			delete(versions, "v2alpha1")

			assert.ElementsMatch(t, allowed, differing("", theirs, ours))
		})
	}
}

// readCRD reads what matters of a CRD: its spec without descriptions, with the
// versions by name.
func readCRD(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var crd map[string]any
	require.NoError(t, yaml.Unmarshal(text, &crd))
	spec := crd["spec"].(map[string]any)
	if strategy, ok := spec["conversion"]; ok { // the default, written out
		require.Equal(t, map[string]any{"strategy": "None"}, strategy)
		delete(spec, "conversion")
	}
	versions := map[string]any{}
	for _, version := range spec["versions"].([]any) {
		v := version.(map[string]any)
		v["schema"] = undescribed(v["schema"], false)
		versions[v["name"].(string)] = v
	}
	spec["versions"] = versions
	return map[string]any{"spec": spec}
}

// undescribed copies a schema without descriptions; fields tells that the keys
// are names of fields, of which one may be called "description".
func undescribed(schema any, fields bool) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	bare := map[string]any{}
	for key, value := range s {
		if fields || key != "description" {
			bare[key] = undescribed(value, !fields && key == "properties")
		}
	}
	return bare
}

// differing lists the leaves that differ, with their paths.
func differing(path string, theirs, ours any) []string {
	t, isMap := theirs.(map[string]any)
	o, alsoMap := ours.(map[string]any)
	if !isMap || !alsoMap {
		if assert.ObjectsAreEqual(theirs, ours) {
			return nil
		}
		return []string{fmt.Sprintf("%s: theirs: %v; ours: %v", path, theirs, ours)}
	}
	keys := maps.Clone(t)
	maps.Copy(keys, o)
	var all []string
	for key := range keys {
		all = append(all, differing(path+"."+key, t[key], o[key])...)
	}
	return all
}
