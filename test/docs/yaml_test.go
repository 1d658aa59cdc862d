package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/gangline/gangline/controller/api/config/v1alpha1"
	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/strictyaml"
)

// TestYAML: blocks of YAML parse, and what they are of is known to the last field.
func TestYAML(t *testing.T) {
	t.Parallel()
	decode := newDecoder(t)
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language == "yaml" {
				assert.NoError(t, decode.all(b.text), "%s:%d", d.path, b.line)
			}
		}
	}
}

// decoder knows what a YAML document can be.
type decoder struct{ scheme *runtime.Scheme }

func newDecoder(t *testing.T) decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, jobset.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	return decoder{scheme}
}

func (d decoder) all(text string) error {
	documents := yamlv3.NewDecoder(strings.NewReader(text))
	for {
		var tree any
		if err := documents.Decode(&tree); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := d.one(tree); err != nil {
			return err
		}
	}
}

func (d decoder) one(tree any) error {
	data, err := yamlv3.Marshal(tree)
	if err != nil {
		return err
	}
	if rules, ok := tree.([]any); ok && len(rules) > 0 && has(rules[0], "user") {
		return strictConfig(data, &identity.Map{})
	}
	fields, _ := tree.(map[string]any)
	kind, _ := fields["kind"].(string)
	version, _ := fields["apiVersion"].(string)
	switch {
	case kind == provider.ConfigKind:
		return strictConfig(data, &provider.Config{})
	case kind == configv1alpha1.Kind && version == configv1alpha1.GroupVersion.String():
		return yaml.UnmarshalStrict(data, &configv1alpha1.Configuration{})
	case kind != "" && version != "":
		return d.object(data, schema.FromAPIVersionAndKind(version, kind))
	case has(fields["nodes"], ""): // values of the chart
		nodes, _ := fields["nodes"].(map[string]any)
		for _, n := range nodes {
			settings, _ := n.(map[string]any)
			config, err := yamlv3.Marshal(settings["config"])
			if err == nil {
				err = strictConfig(config, &provider.Config{})
			}
			if err != nil {
				return err
			}
		}
	case partOf(fields, reflect.TypeFor[provider.Config]()):
		return strictConfig(data, &provider.Config{})
	}
	return nil // a part of some object
}

// has tells that a tree is a mapping with a key, or with any.
func has(tree any, key string) bool {
	m, ok := tree.(map[string]any)
	_, found := m[key]
	return ok && (found || key == "")
}

// partOf tells that all fields are those of a type: it is a part of a configuration.
func partOf(fields map[string]any, t reflect.Type) bool {
	known := map[string]bool{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		known[name] = name != ""
	}
	for name := range fields {
		if !known[name] {
			return false
		}
	}
	return len(fields) > 0
}

func strictConfig(data []byte, into any) error {
	_, err := strictyaml.Unmarshal(data, into)
	return err
}

// foreign are kinds that other projects have, of which no types are here.
func foreign(group string) bool {
	return slices.Contains([]string{"kubeflow.org", "kueue.x-k8s.io", "leaderworkerset.x-k8s.io", "monitoring.coreos.com", "kustomize.config.k8s.io"}, group)
}

func (d decoder) object(data []byte, kind schema.GroupVersionKind) error {
	object, err := d.scheme.New(kind)
	if err != nil {
		if foreign(kind.Group) {
			return nil
		}
		return fmt.Errorf("%s is of no known kind", kind)
	}
	return yaml.UnmarshalStrict(data, object)
}

// TestExamplesAreStrict: so are the manifests of the examples.
func TestExamplesAreStrict(t *testing.T) {
	t.Parallel()
	decode := newDecoder(t)
	for path, data := range files(t, "examples", ".yaml") {
		assert.NoError(t, decode.all(string(data)), path)
	}
}

func TestDecoderIsStrict(t *testing.T) {
	t.Parallel()
	decode := newDecoder(t)
	for text, says := range map[string]string{
		"apiVersion: v1\nkind: Pod\nspec: {nodeSelektor: {a: b}}":                                "nodeSelektor",
		"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {trainer: {nodes: 1}}": "nodes",
		"apiVersion: config.gangline.dev/v1alpha1\nkind: NodeConfiguration\nspol: /x":            "spool",
		"slurm: {alowedFlags: [a]}":                      "allowedFlags",
		"- {namespaces: [a], usr: b, user: c}":           "usr",
		"nodes: {hpc: {config: {spol: /x}}}":             "spool",
		"apiVersion: nobody.example.org/v1\nkind: Thing": "no known kind",
		"a: [": "yaml",
		"apiVersion: kubeflow.org/v1beta1\nkind: Experiment\n---\napiVersion: v1\nkind: Pod\na: b": `"a"`,
	} {
		assert.ErrorContains(t, decode.all(text), says, text)
	}
	for _, text := range []string{"metadata:\n  annotations: {gangline.dev/cluster: default}", "partition: gpu", ""} {
		assert.NoError(t, decode.all(text), text)
	}
}

// TestJSON: blocks of JSON parse.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language == "json" {
				assert.True(t, json.Valid(bytes.TrimSpace([]byte(b.text))), "%s:%d", d.path, b.line)
			}
		}
	}
}

// sorted are a set's members, in order.
func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
