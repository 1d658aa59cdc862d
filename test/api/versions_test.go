package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The KEP's examples, applied as its readers do, are the same objects in
// v1alpha1.
func TestKEPExamplesAreServed(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "kep", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			_, err = control.Kubectl(t.Context(), string(text), "apply", "--validate=strict", "-f", "-")
			require.NoError(t, err)

			kep := object(t, string(text))
			require.Equal(t, "v2alpha1", kep.GroupVersionKind().Version)
			stored := read(t, kep, "v1alpha1")

			same := object(t, strings.Replace(string(text), "v2alpha1", "v1alpha1", 1))
			same.SetName("")
			same.SetGenerateName("same-")
			require.NoError(t, apiServer.Create(t.Context(), same))
			assert.Equal(t, same.Object["spec"], stored.Object["spec"])
			assert.Equal(t, stored.Object["spec"], read(t, kep, "v2alpha1").Object["spec"])
		})
	}
}

// read reads an object in a version.
func read(t *testing.T, o *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: version, Kind: o.GetKind()})
	require.NoError(t, apiServer.Get(t.Context(), client.ObjectKeyFromObject(o), found))
	return found
}

func TestCRDsFitIntoEtcd(t *testing.T) {
	const requestLimit = 3 << 19 // etcd's, 1.5 MiB
	for _, plural := range []string{"trainjobs", "trainingruntimes", "clustertrainingruntimes"} {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		require.NoError(t, apiServer.Get(t.Context(), client.ObjectKey{Name: plural + ".trainer.kubeflow.org"}, crd))
		stored, err := json.Marshal(crd)
		require.NoError(t, err)
		assert.Less(t, len(stored), requestLimit/2, plural)
		versions, _, err := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		require.NoError(t, err)
		assert.Equal(t, []string{"v1alpha1"}, versions, plural)
	}
}

func TestUnknownFields(t *testing.T) {
	for name, test := range map[string]struct{ object, path string }{
		"in a TrainJob":          {trainJob("{runtimeRef: {name: r}, partition: gpu}"), "spec.partition"},
		"in a trainer":           {trainJob(trainer("{nodes: 2}")), "spec.trainer.nodes"},
		"that cannot be patched": {trainJob(podPatch("{containers: [{name: node, image: i}]}")), "containers[0].image"},
		"in a policy":            {runtime(policy("{slurm: {}}")), "spec.mlPolicy.slurm"},
		"in a JobSet":            {runtime(jobSet("{gang: true}")), "spec.template.spec.gang"},
		"that came with a later Kubernetes than JobSet knows": {
			runtime(jobSet("{replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [], volumes: [{name: v, emptyDir: {mode: 448}}]}}}}}]}")),
			"volumes[0].emptyDir.mode",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := apiServer.Create(t.Context(), object(t, test.object), client.DryRunAll, client.FieldValidation("Strict"))
			assert.True(t, apierrors.IsBadRequest(err), "400 is expected: %v", err)
			assert.ErrorContains(t, err, "strict decoding error")
			assert.ErrorContains(t, err, `unknown field "`)
			assert.ErrorContains(t, err, test.path)

			require.NoError(t, apiServer.Create(t.Context(), object(t, test.object), client.DryRunAll, client.FieldValidation("Ignore")))
		})
	}
}
