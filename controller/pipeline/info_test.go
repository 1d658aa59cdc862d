package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/trainertest"
)

const runtime = `
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 2}
  template:
    metadata:
      labels: {from: runtime}
      annotations: {note: runtime}
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [{name: dataset-initializer, image: fetch}]}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                nodeSelector: {disk: ssd}
                tolerations: [{key: runtime, operator: Exists}]
                containers:
                - name: node
                  image: train
                  env: [{name: A, value: a}]
                  resources: {limits: {cpu: "4", nvidia.com/gpu: "1"}, requests: {memory: 1Gi}}
      - name: helper
        template:
          spec: {parallelism: 3, template: {spec: {containers: [{name: helper, image: help}]}}}
`

const job = `
metadata: {name: train}
spec:
  runtimeRef: {name: torch}
`

func TestPodSetsFollowTheTemplate(t *testing.T) {
	info, _ := trainertest.Info(t, job, runtime)
	require.Len(t, info.PodSets, 3)
	type set struct {
		name, ancestor  string
		count, replicas int32
	}
	var got []set
	for _, p := range info.PodSets {
		got = append(got, set{p.Name, p.Ancestor, p.Count, p.Replicas})
	}
	assert.Equal(t, []set{
		{"dataset-initializer", "dataset-initializer", 1, 1},
		{"node", "trainer", 2, 1}, // the policy's numNodes
		{"helper", "", 3, 1},      // its own parallelism
	}, got)
	assert.Same(t, &info.Template.ReplicatedJobs[1].Template, info.Step("trainer").Job, "plugins change the template itself")
	assert.Equal(t, int64(1<<30), info.PodSet("node").Requests.Memory().Value())
	assert.Zero(t, info.PodSet("node").Requests.Cpu().Value(), "only requests count, not limits")
}

// Otherwise the hostfile would name pods of Jobs that the JobSet does not have.
func TestAStepIsOneJob(t *testing.T) {
	info, _ := trainertest.Info(t, job, `
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 3
        template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}
      - {name: helper, replicas: 3}
      - {name: none, replicas: 0}
`)
	var replicas []int32
	for _, p := range info.PodSets {
		replicas = append(replicas, p.Replicas)
	}
	assert.Equal(t, []int32{1, 3, 1}, replicas)
}

func TestTheKEPsConventions(t *testing.T) {
	info, _ := trainertest.Info(t, job+`
  trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: "5"}}}
`, `
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 2}
  template:
    spec:
      replicatedJobs:
      - name: workers
        template:
          spec:
            template:
              metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
              spec: {containers: [{name: side}, {name: trainer, image: i}]}
`)
	assert.Equal(t, "trainer", info.PodSets[0].Ancestor)
	assert.EqualValues(t, 2, info.PodSets[0].Count)
	require.NotNil(t, info.TrainingContainer())
	assert.Equal(t, "trainer", info.TrainingContainer().Name)
	assert.Equal(t, 5, framework.GPUs(info.TrainingContainer().Resources))
}

func TestResourcesPerNodeAreMergedByKey(t *testing.T) {
	info, _ := trainertest.Info(t, job+`
  trainer:
    resourcesPerNode:
      limits: {nvidia.com/gpu: "8"}
      requests: {cpu: "2"}
      claims: [{name: nic}]
`, runtime)
	assert.YAMLEq(t, `
limits: {cpu: "4", nvidia.com/gpu: "8"}
requests: {memory: 1Gi, cpu: "2"}
claims: [{name: nic}]
`, trainertest.YAML(t, info.TrainingContainer().Resources))
	assert.Empty(t, info.PodSet("helper").Container("helper").Resources.Limits)
}

func TestResourcesPerNodeNeedAPolicy(t *testing.T) {
	in := trainertest.Input(t, job+`
  trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: "8"}}}
`, runtime)
	in.Runtime.MLPolicy = nil
	info, err := pipeline.NewInfo(in)
	require.NoError(t, err)
	assert.Equal(t, 1, framework.GPUs(info.TrainingContainer().Resources))
	assert.EqualValues(t, 1, info.Step("trainer").Count)
}

const patches = `
  runtimePatches:
  - manager: example.com/second-name-first-place
    time: "2030-01-01T00:00:00Z"
    trainingRuntimeSpec:
      template:
        metadata: {labels: {from: first, queue: q}, annotations: {note: first}}
        spec:
          replicatedJobs:
          - name: node
            template:
              metadata: {labels: {job: first}}
              spec:
                template:
                  metadata: {annotations: {pod: first}}
                  spec:
                    nodeSelector: {zone: a}
                    tolerations: [{key: first, operator: Exists}]
                    volumes: [{name: data, emptyDir: {}}]
                    containers:
                    - name: node
                      volumeMounts: [{name: data, mountPath: /data}]
  - manager: example.com/a
    time: "2020-01-01T00:00:00Z"
    trainingRuntimeSpec:
      template:
        metadata: {labels: {from: second}}
        spec:
          replicatedJobs:
          - name: node
            template:
              spec:
                template:
                  spec:
                    nodeSelector: {zone: b}
                    tolerations: [{key: second, operator: Exists}]
  - manager: example.com/empty
`

func TestPatchesApplyInListOrderWhateverTheirTimes(t *testing.T) {
	in := trainertest.Input(t, job+patches, runtime)
	before := in.Runtime.DeepCopy()
	info, err := pipeline.NewInfo(in)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"from": "second", "queue": "q"}, info.Labels)
	assert.Equal(t, map[string]string{"note": "first"}, info.Annotations)

	var order []string
	for _, j := range info.Template.ReplicatedJobs {
		order = append(order, j.Name)
	}
	assert.Equal(t, []string{"dataset-initializer", "node", "helper"}, order, "the runtime's order")

	node := info.PodSet("node")
	assert.Equal(t, "trainer", node.Ancestor, "labels are merged")
	assert.Equal(t, "first", node.Job.Labels["job"])
	assert.Equal(t, map[string]string{"pod": "first"}, node.Job.Spec.Template.Annotations)
	pod := node.Pod()
	assert.Equal(t, map[string]string{"disk": "ssd", "zone": "b"}, pod.NodeSelector, "merged by key")
	require.Len(t, pod.Tolerations, 1, "replaced as a whole")
	assert.Equal(t, "second", pod.Tolerations[0].Key)
	assert.Equal(t, "data", pod.Volumes[0].Name)
	assert.Equal(t, "/data", node.Container("node").VolumeMounts[0].MountPath)
	assert.Equal(t, "train", node.Container("node").Image, "merged by name")

	assert.Equal(t, *before, in.Runtime, "the runtime stays as it is: a cache may hold it")
}

func TestWhereTheClusterIsWished(t *testing.T) {
	in := trainertest.Input(t, job, runtime)
	cluster := func() string {
		info, err := pipeline.NewInfo(in)
		require.NoError(t, err)
		return info.Cluster
	}
	assert.Empty(t, cluster())
	in.NamespaceMeta.Labels = map[string]string{"gangline.dev/cluster": "namespaces"}
	assert.Equal(t, "namespaces", cluster())
	in.RuntimeMeta.Annotations = map[string]string{"gangline.dev/cluster": "runtimes"}
	assert.Equal(t, "runtimes", cluster(), "the runtime's is nearer")
	in.TrainJob.Labels = map[string]string{"gangline.dev/cluster": "jobs"}
	assert.Equal(t, "jobs", cluster(), "the job's is nearest")
}

func TestEndpointsNeedNoRuntimeSubdomain(t *testing.T) {
	info, tj := trainertest.Info(t, job, runtime)
	assert.Equal(t, "train", info.Subdomain(tj))
	in := trainertest.Input(t, job, runtime)
	in.Runtime.Template.Spec.Network = &jobsetv1alpha2.Network{Subdomain: "team"}
	info, err := pipeline.NewInfo(in)
	require.NoError(t, err)
	assert.Equal(t, "team", info.Subdomain(&v1alpha1.TrainJob{}))
}
