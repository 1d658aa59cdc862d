package coscheduling

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/controller/trainertest"
)

const trainJob = `{metadata: {name: llm}, spec: {trainer: {resourcesPerNode: {requests: {cpu: 2}}}}}`

// runtime is one of four nodes with a pod group policy.
func runtime(policy string) string {
	return `
spec:
  podGroupPolicy: ` + policy + `
  mlPolicy: {numNodes: 4}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
`
}

const metadata = `
apiVersion: scheduling.x-k8s.io/v1alpha1
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
`

func TestPodGroup(t *testing.T) {
	tests := map[string]struct {
		policy string
		want   string // "" for none
		labels map[string]string
	}{
		"with its timeout": {
			policy: `{coscheduling: {scheduleTimeoutSeconds: 120}}`,
			want:   metadata + `spec: {minMember: 4, minResources: {cpu: "8"}, scheduleTimeoutSeconds: 120}`,
			labels: map[string]string{"scheduling.x-k8s.io/pod-group": "llm"},
		},
		"without one: the API's default": {
			policy: `{coscheduling: {}}`,
			want:   metadata + `spec: {minMember: 4, minResources: {cpu: "8"}, scheduleTimeoutSeconds: 60}`,
			labels: map[string]string{"scheduling.x-k8s.io/pod-group": "llm"},
		},
		"no policy":      {policy: `null`, labels: map[string]string{}},
		"another policy": {policy: `{volcano: {}}`, labels: map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, trainJob, runtime(tt.policy))
			p := New(nil)
			require.NoError(t, p.EnforcePodGroupPolicy(info, trainJob))
			assert.Equal(t, tt.labels, info.PodLabels)
			assert.Empty(t, info.PodAnnotations)

			components, err := p.Build(t.Context(), info, trainJob)
			require.NoError(t, err)
			if tt.want == "" {
				assert.Empty(t, components)
				return
			}
			require.Len(t, components, 1)
			object, err := components[0].Object()
			require.NoError(t, err)
			assert.YAMLEq(t, tt.want, trainertest.YAML(t, object))
		})
	}
}

func TestWatchesItsPodGroups(t *testing.T) {
	watches := New(nil).Watches()
	require.NotEmpty(t, watches)
	assert.Equal(t, "scheduling.x-k8s.io/v1alpha1, Kind=PodGroup", watches[0].Object.GetObjectKind().GroupVersionKind().String())
}
