package xgboost_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gangline/gangline/controller/plugins/xgboost"
	"github.com/gangline/gangline/controller/trainertest"
)

const runtime = `
metadata: {name: xgboost-distributed, labels: {trainer.kubeflow.org/framework: xgboost}}
spec:
  mlPolicy: {numNodes: 2, xgboost: {}}
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
                  env: [{name: NTHREAD, value: "4"}]`

const gpuRuntime = runtime + `
                  resources: {limits: {nvidia.com/gpu: 2}}`

func TestEnforceMLPolicy(t *testing.T) {
	trainertest.EnforceMLPolicy(t, xgboost.New(), map[string]trainertest.Policy{
		"each node learns its rank and the tracker": {
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			Runtime: runtime,
			Pods:    4,
			Pod: `
containers:
- name: node
  env:
  - {name: NTHREAD, value: "4"}
  - {name: DMLC_TRACKER_URI, value: tj-node-0-0.tj}
  - {name: DMLC_TRACKER_PORT, value: "29500"}
  - name: DMLC_TASK_ID
    valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
  - {name: DMLC_NUM_WORKER, value: "4"}
  ports: [{containerPort: 29500}]`,
		},
		"without a spec.trainer only the number of nodes is the policy's": {
			TrainJob: `metadata: {name: tj}`,
			Runtime:  runtime,
			Pods:     2,
			Pod: `
containers:
- name: node
  env: [{name: NTHREAD, value: "4"}]`,
		},
		"a runtime of another framework is not touched": {
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			Runtime: `
spec:
  mlPolicy: {numNodes: 2, jax: {}}
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
		"a runtime that trains nothing is not touched": {
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {numNodes: 4}}`,
			Runtime: `
spec:
  mlPolicy: {numNodes: 2, xgboost: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {spec: {template: {spec: {containers: [{name: node}]}}}}`,
			Pods: 1,
			Pod:  `containers: [{name: node}]`,
		},
	})
}

func TestWorkers(t *testing.T) {
	tests := map[string]struct{ trainer, runtime, want string }{
		"one for each node without GPUs":                     {`{numNodes: 3}`, runtime, "3"},
		"one for each of the runtime's GPUs":                 {`{numNodes: 3}`, gpuRuntime, "6"},
		"one for each of the TrainJob's GPUs":                {`{numNodes: 3, resourcesPerNode: {requests: {amd.com/gpu: 4}}}`, runtime, "12"},
		"the TrainJob's resources instead of the runtime's":  {`{resourcesPerNode: {limits: {cpu: 8}}}`, gpuRuntime, "2"},
		"the number of processes of a node does not matter":  {`{numNodes: 3, numProcPerNode: 5}`, runtime, "3"},
		"the runtime's number of nodes if it is not changed": {`{}`, gpuRuntime, "4"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, "metadata: {name: tj}\nspec: {trainer: "+test.trainer+"}", test.runtime)

			require.NoError(t, xgboost.New().EnforceMLPolicy(info, trainJob))

			assert.Contains(t, info.TrainingContainer().Env, corev1.EnvVar{Name: "DMLC_NUM_WORKER", Value: test.want})
		})
	}
}

func TestValidate(t *testing.T) {
	env := field.NewPath("spec", "trainer", "env")
	tests := map[string]struct {
		trainJob, runtime string
		want              field.ErrorList
	}{
		"variables of the collective are refused one by one": {
			`spec: {trainer: {env: [{name: DMLC_TRACKER_URI}, {name: MINE}, {name: DMLC_TRACKER_PORT}, {name: DMLC_TASK_ID}, {name: DMLC_NUM_WORKER}]}}`,
			runtime,
			field.ErrorList{
				field.Forbidden(env.Index(0), "DMLC_TRACKER_URI is reserved for the XGBoost runtime"),
				field.Forbidden(env.Index(2), "DMLC_TRACKER_PORT is reserved for the XGBoost runtime"),
				field.Forbidden(env.Index(3), "DMLC_TASK_ID is reserved for the XGBoost runtime"),
				field.Forbidden(env.Index(4), "DMLC_NUM_WORKER is reserved for the XGBoost runtime"),
			},
		},
		"others are the user's": {
			`spec: {trainer: {env: [{name: DMLC_ROLE, value: worker}]}}`, runtime, nil,
		},
		"there may be no spec.trainer": {`spec: {}`, runtime, nil},
		"other frameworks may use the names": {
			`spec: {trainer: {env: [{name: DMLC_TASK_ID}]}}`, `spec: {mlPolicy: {torch: {}}}`, nil,
		},
		"so may runtimes without a policy": {
			`spec: {trainer: {env: [{name: DMLC_TASK_ID}]}}`, `spec: {}`, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, test.trainJob, test.runtime)

			warnings, errs := xgboost.New().Validate(t.Context(), info, nil, trainJob)

			assert.Equal(t, test.want, errs)
			assert.Empty(t, warnings)
		})
	}
}
