package jax_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/plugins/jax"
	"github.com/gangline/gangline/controller/trainertest"
)

const runtime = `
metadata: {name: jax-distributed, labels: {trainer.kubeflow.org/framework: jax}}
spec:
  mlPolicy: {numNodes: 2, jax: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: nvcr.io/nvidia/jax:25.10-py3
                  env: [{name: XLA_FLAGS, value: --xla}, {name: JAX_PROCESS_ID, value: "0"}]`

func TestEnforceMLPolicy(t *testing.T) {
	tests := map[string]struct {
		trainJob, runtime string
		pods              int32
		pod               string
	}{
		"each node learns its rank and the coordinator": {
			trainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			runtime: runtime,
			pods:    4,
			pod: `
containers:
- name: node
  image: nvcr.io/nvidia/jax:25.10-py3
  env:
  - {name: XLA_FLAGS, value: --xla}
  - name: JAX_PROCESS_ID
    valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
  - {name: JAX_NUM_PROCESSES, value: "4"}
  - {name: JAX_COORDINATOR_ADDRESS, value: "tj-node-0-0.tj:29500"}
  ports: [{containerPort: 29500}]`,
		},
		"the variables are in Kubeflow's order; the TrainJob's env, its image and its command come later": {
			trainJob: `
metadata: {name: tj}
spec: {trainer: {image: mine, command: [python], env: [{name: JAX_NUM_PROCESSES, value: "9"}]}}`,
			runtime: `
spec:
  mlPolicy: {numNodes: 2, jax: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: theirs}]}}}`,
			pods: 2,
			pod: `
containers:
- name: node
  image: theirs
  env:
  - {name: JAX_NUM_PROCESSES, value: "2"}
  - name: JAX_PROCESS_ID
    valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
  - {name: JAX_COORDINATOR_ADDRESS, value: "tj-node-0-0.tj:29500"}
  ports: [{containerPort: 29500}]`,
		},
		"without a spec.trainer only the number of nodes is the policy's": {
			trainJob: `metadata: {name: tj}`,
			runtime:  runtime,
			pods:     2,
			pod: `
containers:
- name: node
  image: nvcr.io/nvidia/jax:25.10-py3
  env: [{name: XLA_FLAGS, value: --xla}, {name: JAX_PROCESS_ID, value: "0"}]`,
		},
		"a runtime of another framework is not touched": {
			trainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			runtime: `
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}`,
			pods: 2,
			pod:  `containers: [{name: node}]`,
		},
		"a trainer step without a training container has its nodes counted": {
			trainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			runtime: `
spec:
  mlPolicy: {jax: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: other}]}}}`,
			pods: 4,
			pod:  `containers: [{name: other}]`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, test.trainJob, test.runtime)

			require.NoError(t, jax.New().EnforceMLPolicy(info, trainJob))

			want := trainertest.Parse[corev1.PodSpec](t, test.pod)
			assert.Equal(t, trainertest.YAML(t, want), trainertest.YAML(t, info.PodSets[0].Pod()))
			assert.Equal(t, test.pods, info.PodSets[0].Count)
		})
	}
}
