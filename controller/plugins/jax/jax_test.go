package jax_test

import (
	"testing"

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
	trainertest.EnforceMLPolicy(t, jax.New(), map[string]trainertest.Policy{
		"each node learns its rank and the coordinator": {
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			Runtime: runtime,
			Pods:    4,
			Pod: `
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
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {image: mine, command: [python], env: [{name: JAX_NUM_PROCESSES, value: "9"}]}}`,
			Runtime: `
spec:
  mlPolicy: {numNodes: 2, jax: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: theirs}]}}}`,
			Pods: 2,
			Pod: `
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
			TrainJob: `metadata: {name: tj}`,
			Runtime:  runtime,
			Pods:     2,
			Pod: `
containers:
- name: node
  image: nvcr.io/nvidia/jax:25.10-py3
  env: [{name: XLA_FLAGS, value: --xla}, {name: JAX_PROCESS_ID, value: "0"}]`,
		},
		"a runtime of another framework is not touched": {
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			Runtime: `
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}`,
			Pods: 2,
			Pod:  `containers: [{name: node}]`,
		},
		"a trainer step without a training container has its nodes counted": {
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			Runtime: `
spec:
  mlPolicy: {jax: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: other}]}}}`,
			Pods: 4,
			Pod:  `containers: [{name: other}]`,
		},
	})
}
