package torch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/plugins/torch"
	"github.com/gangline/gangline/controller/trainertest"
)

const runtime = `
metadata: {name: torch-distributed, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
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
                  env: [{name: NCCL_DEBUG, value: WARN}]
                  ports: [{name: metrics, containerPort: 9090}]
                - name: side`

const gpuRuntime = `
metadata: {name: torch-distributed}
spec:
  mlPolicy: {torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, resources: {limits: {cpu: 12, nvidia.com/gpu: 4}}}]}}}`

func TestEnforceMLPolicy(t *testing.T) {
	trainertest.EnforceMLPolicy(t, torch.New(), map[string]trainertest.Policy{
		"the TrainJob's env comes before torchrun's options": {
			TrainJob: `
metadata: {name: tj}
spec:
  trainer:
    numNodes: 4
    numProcPerNode: 8
    image: mine
    command: [torchrun, train.py]
    env: [{name: EPOCHS, value: "5"}, {name: NCCL_DEBUG, value: INFO}]`,
			Runtime: runtime,
			Pods:    4,
			Pod: `
containers:
- name: node
  env:
  - {name: NCCL_DEBUG, value: INFO}
  - {name: EPOCHS, value: "5"}
  - {name: PET_NNODES, value: "4"}
  - {name: PET_NPROC_PER_NODE, value: "8"}
  - name: PET_NODE_RANK
    valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
  - {name: PET_MASTER_ADDR, value: tj-node-0-0.tj}
  - {name: PET_MASTER_PORT, value: "29500"}
  ports: [{name: metrics, containerPort: 9090}, {containerPort: 29500}]
- name: side`,
		},
		"without a spec.trainer only the number of nodes is the policy's": {
			TrainJob: `metadata: {name: tj}`,
			Runtime:  runtime,
			Pods:     2,
			Pod: `
containers:
- name: node
  env: [{name: NCCL_DEBUG, value: WARN}]
  ports: [{name: metrics, containerPort: 9090}]
- name: side`,
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
		"the KEP's names: the label on the pods, the container trainer, and a subdomain": {
			TrainJob: `
metadata: {name: tj}
spec: {trainer: {args: [num-epochs=5]}}`,
			Runtime: `
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      network: {subdomain: mesh}
      replicatedJobs:
      - name: workers
        template:
          spec:
            template:
              metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
              spec: {containers: [{name: trainer, command: [torchrun, train.py]}]}`,
			Pods: 2,
			Pod: `
containers:
- name: trainer
  command: [torchrun, train.py]
  env:
  - {name: PET_NNODES, value: "2"}
  - {name: PET_NPROC_PER_NODE, value: "1"}
  - name: PET_NODE_RANK
    valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
  - {name: PET_MASTER_ADDR, value: tj-workers-0-0.mesh}
  - {name: PET_MASTER_PORT, value: "29500"}
  ports: [{containerPort: 29500}]`,
		},
	})
}

func TestProcessesPerNode(t *testing.T) {
	tests := map[string]struct{ trainer, runtime, want string }{
		"the TrainJob's number wins over its resources":     {`{numProcPerNode: 3, resourcesPerNode: {limits: {cpu: 5, nvidia.com/gpu: 4}}}`, gpuRuntime, "3"},
		"the runtime's GPUs are torchrun's to count":        {`{}`, gpuRuntime, "auto"},
		"and the TrainJob's, whoever made them":             {`{resourcesPerNode: {requests: {amd.com/gpu: 2, cpu: 8}}}`, runtime, "auto"},
		"one for each CPU that is requested":                {`{resourcesPerNode: {requests: {cpu: 5}, limits: {cpu: 7}}}`, runtime, "5"},
		"one for each CPU of the limit if none is":          {`{resourcesPerNode: {requests: {memory: 1Gi}, limits: {cpu: 7}}}`, runtime, "7"},
		"a part of a CPU counts as one":                     {`{resourcesPerNode: {limits: {cpu: 1500m}}}`, runtime, "2"},
		"the TrainJob's resources replace the runtime's":    {`{resourcesPerNode: {limits: {cpu: 5}}}`, gpuRuntime, "5"},
		"also if they name neither GPUs nor CPUs":           {`{resourcesPerNode: {limits: {memory: 1Gi}}}`, gpuRuntime, "1"},
		"one where neither job nor runtime names resources": {`{}`, runtime, "1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, "metadata: {name: tj}\nspec: {trainer: "+test.trainer+"}", test.runtime)

			require.NoError(t, torch.New().EnforceMLPolicy(info, trainJob))

			assert.Contains(t, info.TrainingContainer().Env, corev1.EnvVar{Name: "PET_NPROC_PER_NODE", Value: test.want})
		})
	}
}

func TestEnvInjection(t *testing.T) {
	const runtime = `
metadata: {name: torchtune-llama3.2-1b}
spec:
  mlPolicy:
    numNodes: 2
    torch:
      envInjection:
        targets:
        - {jobName: node, containerNames: [check, side]}
        - {jobName: monitor, containerNames: [watch]}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                initContainers:
                - {name: check, env: [{name: PET_NNODES, value: none}, {name: OWN, value: "1"}]}
                - {name: other}
                containers: [{name: node}, {name: side}]
      - name: monitor
        template:
          spec: {template: {spec: {containers: [{name: watch}]}}}`

	want := func(nodes string) string {
		return `
containers:
- name: any
  env:
  - {name: PET_NNODES, value: "` + nodes + `"}
  - {name: PET_NPROC_PER_NODE, value: "1"}
  - name: PET_NODE_RANK
    valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
  - {name: PET_MASTER_ADDR, value: tj-node-0-0.tj}
  - {name: PET_MASTER_PORT, value: "29500"}`
	}
	tests := map[string]struct {
		trainJob, nodes string
		training        []string
	}{
		"with a spec.trainer": {
			`
metadata: {name: tj}
spec: {trainer: {numNodes: 3, env: [{name: EPOCHS, value: "5"}]}}`, "3",
			[]string{"EPOCHS", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"},
		},
		"without one, when the training container gets nothing": {
			`metadata: {name: tj}`, "2", nil,
		},
		"with torchtune, whose own container has the master on its command line": {
			`
metadata: {name: tj}
spec: {runtimeRef: {name: torchtune-llama3.2-1b}, trainer: {command: [tune, run]}}`, "2",
			[]string{"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, test.trainJob, runtime)

			require.NoError(t, torch.New().EnforceMLPolicy(info, trainJob))

			injected := trainertest.Parse[corev1.PodSpec](t, want(test.nodes)).Containers[0].Env
			node, monitor := info.PodSet("node"), info.PodSet("monitor")
			assert.Equal(t, injected, node.Container("side").Env)
			assert.Equal(t, injected, monitor.Container("watch").Env)

			check := node.AnyContainer("check").Env
			assert.Equal(t, injected[0], check[0], "set where it stood")
			assert.Equal(t, corev1.EnvVar{Name: "OWN", Value: "1"}, check[1])
			assert.Equal(t, injected[1:], check[2:])

			assert.Empty(t, node.AnyContainer("other").Env)
			assert.Empty(t, node.Container("side").Ports)
			assert.Equal(t, test.training, names(node.Container("node").Env))
			assert.EqualValues(t, 1, monitor.Count)
		})
	}
}

func names(env []corev1.EnvVar) []string {
	var names []string
	for _, e := range env {
		names = append(names, e.Name)
	}
	return names
}

func TestEnvInjectionIntoNothing(t *testing.T) {
	tests := map[string]struct{ target, want string }{
		"the container does not exist": {
			`{jobName: node, containerNames: [side, missing]}`,
			`envInjection target podSet "node" container "missing" not found in runtime template`,
		},
		"the job does not exist": {
			`{jobName: missing, containerNames: [side]}`,
			`envInjection target podSet "missing" container "side" not found in runtime template`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, `metadata: {name: tj}`, `
spec:
  mlPolicy: {torch: {envInjection: {targets: [`+test.target+`]}}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {spec: {template: {spec: {containers: [{name: node}, {name: side}]}}}}`)

			assert.EqualError(t, torch.New().EnforceMLPolicy(info, trainJob), test.want)
		})
	}
}
