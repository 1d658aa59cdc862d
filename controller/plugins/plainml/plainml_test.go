package plainml_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/plugins/plainml"
	"github.com/gangline/gangline/controller/trainertest"
)

const trainJob = `
metadata: {name: tj}
spec:
  trainer:
    numNodes: 3
    env:
    - {name: LEVEL, value: debug}
    - {name: EPOCHS, value: "5"}`

// runtime has a policy between its two parts.
const (
	runtimeHead = `
spec:`
	runtimeTail = `
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [{name: node, env: [{name: LEVEL, value: info}]}]}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            parallelism: 2
            template:
              spec:
                containers:
                - name: side
                - name: node
                  command: [train]
                  env: [{name: LEVEL, value: info}, {name: DATA, value: /data}]`
)

func TestEnforceMLPolicy(t *testing.T) {
	const untouched = `[{name: LEVEL, value: info}, {name: DATA, value: /data}]`
	const merged = `[{name: LEVEL, value: debug}, {name: DATA, value: /data}, {name: EPOCHS, value: "5"}]`

	tests := map[string]struct {
		trainJob, policy string
		pods             int32
		env              string
	}{
		"a runtime without any policy gets nodes and env":   {trainJob, ``, 3, merged},
		"so does one whose policy names no framework":       {trainJob, `mlPolicy: {numNodes: 2}`, 3, merged},
		"so does one for xgboost":                           {trainJob, `mlPolicy: {xgboost: {}}`, 3, merged},
		"so does one for flux":                              {trainJob, `mlPolicy: {flux: {}}`, 3, merged},
		"torch sees to itself":                              {trainJob, `mlPolicy: {numNodes: 2, torch: {}}`, 2, untouched},
		"mpi sees to itself":                                {trainJob, `mlPolicy: {numNodes: 2, mpi: {}}`, 2, untouched},
		"jax sees to itself":                                {trainJob, `mlPolicy: {numNodes: 2, jax: {}}`, 2, untouched},
		"without a spec.trainer the template stays":         {`metadata: {name: tj}`, `mlPolicy: {numNodes: 4}`, 4, untouched},
		"and so does its parallelism if there is no policy": {`metadata: {name: tj}`, ``, 2, untouched},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, job := trainertest.Info(t, test.trainJob, runtimeHead+"\n  "+test.policy+runtimeTail)

			require.NoError(t, plainml.New().EnforceMLPolicy(info, job))

			initializer, node := &info.PodSets[0], &info.PodSets[1]
			want := trainertest.Parse[corev1.PodSpec](t, `
containers:
- name: side
- name: node
  command: [train]
  env: `+test.env)
			assert.Equal(t, trainertest.YAML(t, want), trainertest.YAML(t, node.Pod()))
			assert.Equal(t, test.pods, node.Count)
			assert.EqualValues(t, 1, initializer.Count)
			assert.Equal(t, []corev1.EnvVar{{Name: "LEVEL", Value: "info"}}, initializer.Container("node").Env)
		})
	}
}

func TestARuntimeThatTrainsNothingIsLeftAlone(t *testing.T) {
	info, job := trainertest.Info(t, trainJob, `
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {spec: {parallelism: 2, template: {spec: {containers: [{name: node}]}}}}`)

	require.NoError(t, plainml.New().EnforceMLPolicy(info, job))

	assert.EqualValues(t, 2, info.PodSets[0].Count)
	assert.Empty(t, info.PodSets[0].Container("node").Env)
}

func TestTheContainerMayBeCalledTrainerAsInTheKEP(t *testing.T) {
	info, job := trainertest.Info(t, trainJob, `
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          spec:
            template:
              metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
              spec: {containers: [{name: trainer}]}`)

	require.NoError(t, plainml.New().EnforceMLPolicy(info, job))

	assert.EqualValues(t, 3, info.PodSets[0].Count)
	assert.Equal(t, job.Spec.Trainer.Env, info.TrainingContainer().Env)
}
