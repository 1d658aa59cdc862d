package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// object reads one object; it gets a name if it has none. TrainJobs and
// TrainingRuntimes are in the namespace "default".
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &o.Object), text)
	if o.GetName() == "" {
		o.SetGenerateName("test-")
	}
	if !strings.HasPrefix(o.GetKind(), "Cluster") {
		o.SetNamespace("default")
	}
	return o
}

// trainJob is one with a spec, in YAML's flow style: "{runtimeRef: {name: r}}".
func trainJob(spec string) string {
	return "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, spec: " + spec + "}"
}

// trainer is the spec of a TrainJob with that spec.trainer.
func trainer(section string) string {
	return "{runtimeRef: {name: r}, trainer: " + section + "}"
}

// dataset is the spec of a TrainJob with that spec.initializer.dataset.
func dataset(section string) string {
	return "{runtimeRef: {name: r}, initializer: {dataset: " + section + "}}"
}

// patches is the spec of a TrainJob with those spec.runtimePatches.
func patches(list string) string {
	return "{runtimeRef: {name: r}, runtimePatches: " + list + "}"
}

// podPatch is the spec of a TrainJob that patches the pods of one replicated job.
func podPatch(spec string) string {
	return patches("[{manager: a.io/b, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, " +
		"template: {spec: {template: {spec: " + spec + "}}}}]}}}}]")
}

// runtime is a ClusterTrainingRuntime with a spec.
func runtime(spec string) string {
	return "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: ClusterTrainingRuntime, spec: " + spec + "}"
}

// policy is the spec of a runtime with that spec.mlPolicy.
func policy(section string) string {
	return "{mlPolicy: " + section + "}"
}

// jobSet is the spec of a runtime with that spec.template.spec.
func jobSet(spec string) string {
	return "{template: {spec: " + spec + "}}"
}

// job is the spec of a runtime with one replicated job, which has more than a
// name and a template.
func job(more string) string {
	return jobSet("{replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: []}}}}" + more + "}]}")
}

// list is a list of n elements; "%d" in an element is its index.
func list(n int, element string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = strings.ReplaceAll(element, "%d", fmt.Sprint(i))
	}
	return "[" + strings.Join(elements, ", ") + "]"
}

// text is a word of n letters.
func text(n int) string { return strings.Repeat("a", n) }

// refused asserts that the API server found the object invalid, in those words.
func refused(t *testing.T, err error, words string) {
	t.Helper()
	require.Error(t, err, "the API server has admitted it")
	assert.True(t, apierrors.IsInvalid(err), "422 is expected: %v", err)
	assert.ErrorContains(t, err, words)
}

// create creates an object for real.
func create(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := object(t, text)
	require.NoError(t, apiServer.Create(t.Context(), o))
	return o
}

// rule is one rule of the schema: what keeps it, and what breaks it with which
// words.
type rule struct {
	good  []string
	bad   []string
	words string
}

// checkRules offers all objects, and has none stored.
func checkRules(t *testing.T, of func(spec string) string, rules map[string]rule) {
	t.Helper()
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, spec := range r.good {
				assert.NoError(t, apiServer.Create(t.Context(), object(t, of(spec)), client.DryRunAll), spec[:min(len(spec), 500)])
			}
			for _, spec := range r.bad {
				refused(t, apiServer.Create(t.Context(), object(t, of(spec)), client.DryRunAll), r.words)
			}
		})
	}
}
