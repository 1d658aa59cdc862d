package podgroup

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/trainertest"
)

var groups = schema.GroupVersionKind{Group: "scheduling.example.com", Version: "v1", Kind: "PodGroup"}

func TestComponent(t *testing.T) {
	tests := map[string]struct {
		jobs string
		want string
	}{
		"all jobs count, with their pods' effective requests": {
			jobs: `
      - name: dataset-initializer
        template: {spec: {template: {spec: {containers: [
          {name: dataset-initializer, resources: {requests: {cpu: 500m}}}]}}}}
      - name: node
        template: {spec: {parallelism: 3, template: {spec: {
          initContainers: [{name: fetch, resources: {requests: {memory: 3Gi}}}],
          containers: [
            {name: node, resources: {requests: {cpu: "2", memory: 1Gi}, limits: {nvidia.com/gpu: "4"}}},
            {name: sidecar, resources: {requests: {cpu: 250m}}}]}}}}
`,
			want: `
apiVersion: scheduling.example.com/v1
kind: PodGroup
metadata:
  name: llm
  namespace: default
  ownerReferences:
  - apiVersion: trainer.kubeflow.org/v1alpha1
    blockOwnerDeletion: true
    controller: true
    kind: TrainJob
    name: llm
    uid: 5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908
spec:
  minMember: 4
  minResources:
    cpu: 7250m
    memory: 9Gi
  queue: gpus
`,
		},
		"replicas do not count; without requests the list is empty": {
			jobs: `
      - {name: node, replicas: 2, template: {spec: {parallelism: 2}}}
`,
			want: `
apiVersion: scheduling.example.com/v1
kind: PodGroup
metadata:
  name: llm
  namespace: default
  ownerReferences:
  - apiVersion: trainer.kubeflow.org/v1alpha1
    blockOwnerDeletion: true
    controller: true
    kind: TrainJob
    name: llm
    uid: 5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908
spec:
  minMember: 2
  minResources: {}
  queue: gpus
`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, `{metadata: {name: llm}}`, "spec:\n  template:\n    spec:\n      replicatedJobs:"+tt.jobs)
			requests := func() string {
				var all []any
				for _, p := range info.PodSets {
					all = append(all, p.Count, p.Requests)
				}
				return trainertest.YAML(t, all)
			}
			before := requests()

			c := Component(groups, info, trainJob, map[string]any{"queue": "gpus"})
			assert.Equal(t, framework.UntilStarted, c.Policy)
			assert.Equal(t, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "scheduling.example.com/v1", "kind": "PodGroup",
				"metadata": map[string]any{"name": "llm", "namespace": "default"},
			}}, c.Kind)
			for range 2 { // as often as one likes
				object, err := c.Object()
				require.NoError(t, err)
				assert.YAMLEq(t, tt.want, trainertest.YAML(t, object))
			}
			assert.Equal(t, before, requests(), "info has changed")
		})
	}
}
