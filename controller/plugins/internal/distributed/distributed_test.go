package distributed_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/plugins/internal/distributed"
	"github.com/gangline/gangline/controller/trainertest"
)

func TestSetNodes(t *testing.T) {
	const step = `
spec:
  mlPolicy: {numNodes: 2}
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}`
	const noStep = `
spec:
  mlPolicy: {numNodes: 2}
  template:
    spec:
      replicatedJobs:
      - name: node`
	tests := map[string]struct {
		trainJob, runtime string
		returns, pods     int32
	}{
		"the TrainJob's number replaces the runtime's":    {`spec: {trainer: {numNodes: 4}}`, step, 4, 4},
		"the runtime's stays if the TrainJob has none":    {`spec: {trainer: {}}`, step, 2, 2},
		"the runtime's stays without a spec.trainer":      {`spec: {}`, step, 2, 2},
		"none of the jobs trains, so there is one node":   {`spec: {trainer: {numNodes: 4}}`, noStep, 1, 1},
		"no node is a number too, as JobSet has it":       {`spec: {trainer: {numNodes: 0}}`, step, 0, 0},
		"the runtime's is 1 if it does not say otherwise": {`spec: {trainer: {}}`, noPolicyNumber, 1, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, _ := trainertest.Info(t, test.trainJob, test.runtime)
			assert.Equal(t, test.returns, distributed.SetNodes(info))
			assert.Equal(t, test.pods, info.PodSets[0].Count)
		})
	}
}

const noPolicyNumber = `
spec:
  mlPolicy: {torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}`

func TestAddress(t *testing.T) {
	tests := map[string]struct{ runtime, want string }{
		"job node, and the TrainJob's name as subdomain": {`
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}`,
			"tj-node-0-0.tj:29500"},
		"the runtime's own subdomain": {`
spec:
  template:
    spec:
      network: {subdomain: mesh}
      replicatedJobs:
      - name: node
        template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}`,
			"tj-node-0-0.mesh:29500"},
		"a trainer step of another name in a runtime without a job node": {`
spec:
  template:
    spec:
      replicatedJobs:
      - name: prepare
      - name: workers
        template: {spec: {template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}}`,
			"tj-workers-0-0.tj:29500"},
		"job node although another one is the trainer step, as Kubeflow has it": {`
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
      - name: launcher
        template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}`,
			"tj-node-0-0.tj:29500"},
		"job node where nothing trains": {`
spec:
  template:
    spec:
      replicatedJobs:
      - name: prepare`,
			"tj-node-0-0.tj:29500"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, `metadata: {name: tj}`, test.runtime)
			assert.Equal(t, test.want, distributed.Address(info, trainJob))
			assert.Equal(t, test.want, distributed.Host(info, trainJob)+":"+distributed.Port())
		})
	}
}

func TestRank(t *testing.T) {
	want := trainertest.Parse[corev1.EnvVar](t, `
name: RANK
valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}`)
	assert.Equal(t, *want, distributed.Rank("RANK"))
}

func TestExpose(t *testing.T) {
	tests := map[string]struct{ before, after string }{
		"the port comes last":                            {`ports: [{name: web, containerPort: 80}]`, `ports: [{name: web, containerPort: 80}, {containerPort: 29500}]`},
		"one that is there already is not doubled":       {`ports: [{name: rank0, containerPort: 29500}]`, `ports: [{containerPort: 29500}]`},
		"a port without a name is the same, as Kubeflow": {`ports: [{containerPort: 80}]`, `ports: [{containerPort: 29500}]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := trainertest.Parse[corev1.Container](t, test.before)
			distributed.Expose(c)
			assert.Equal(t, trainertest.Parse[corev1.Container](t, test.after), c)
		})
	}
}
