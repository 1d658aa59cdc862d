package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/trainertest"
	"github.com/gangline/gangline/provider"
)

// Runtimes, of which each job is one line.
const (
	head = `
metadata: {name: r}
spec:
  mlPolicy: {numNodes: 1}
  template: {spec: {replicatedJobs: [
`
	mpiHead = `
metadata: {name: r}
spec:
  mlPolicy: {numNodes: 1, mpi: {}}
  template: {spec: {replicatedJobs: [
`
	tail     = `]}}`
	trainer  = `template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: `
	other    = `template: {spec: {template: {spec: `
	cpu      = `{containers: [{name: node, resources: {requests: {cpu: 2}}}]}}}}`
	gpu      = `{containers: [{name: node, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`
	initGPU  = `{initContainers: [{name: fetch, resources: {requests: {amd.com/gpu: 1}}}], containers: [{name: node}]}}}}`
	zeroGPU  = `{containers: [{name: node, resources: {limits: {nvidia.com/gpu: 0}}}]}}}}`
	selected = `{nodeSelector: {gangline.dev/cluster: daint}, containers: [{name: node, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`
	near     = `{nodeSelector: {rack: a}, tolerations: [{key: gpu}], containers: [{name: node}]}}}}`
	tolerant = `{tolerations: [{key: virtual-kubelet.io/provider, operator: Equal, value: gangline, effect: NoSchedule}], containers: [{name: node}]}}}}`
)

func place(t *testing.T, trainJob, runtime string, more ...func(*pipeline.Input)) *framework.Info {
	t.Helper()
	in := trainertest.Input(t, trainJob, runtime)
	for _, change := range more {
		change(&in)
	}
	info, err := pipeline.NewInfo(in)
	require.NoError(t, err)
	require.NoError(t, New().Place(info, in.TrainJob))
	return info
}

const onAlps = `{metadata: {name: llm, annotations: {gangline.dev/cluster: alps}}}`

func TestWhichPodsGoToTheCluster(t *testing.T) {
	tests := map[string]struct {
		trainJob, runtime string
		want              []string // the jobs that are placed
	}{
		"those that ask for a GPU": {
			trainJob: onAlps, want: []string{"node"},
			runtime: head + `{name: dataset-initializer, ` + other + cpu + `}, {name: node, ` + trainer + gpu + `}` + tail,
		},
		"an init container's GPU counts, in a job of any name": {
			trainJob: onAlps, want: []string{"tokenizer"},
			runtime: head + `{name: tokenizer, ` + other + initGPU + `}, {name: node, ` + trainer + cpu + `}` + tail,
		},
		"no GPU anywhere: those that train": {
			trainJob: onAlps, want: []string{"node"},
			runtime: head + `{name: dataset-initializer, ` + other + cpu + `}, {name: node, ` + trainer + zeroGPU + `}` + tail,
		},
		"a job called node that does not train stays": {
			trainJob: onAlps, want: []string{"trainer-node"},
			runtime: head + `{name: node, ` + other + cpu + `}, {name: trainer-node, ` + trainer + cpu + `}` + tail,
		},
		"the TrainJob's resources count": {
			trainJob: `{metadata: {name: llm, annotations: {gangline.dev/cluster: alps}},
              spec: {trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}}}`, want: []string{"node"},
			runtime: head + `{name: watcher, ` + other + cpu + `}, {name: node, ` + trainer + cpu + `}` + tail,
		},
		"MPI: the launcher goes with the workers' GPUs": {
			trainJob: onAlps, want: []string{"node", "launcher"},
			runtime: mpiHead + `{name: node, ` + other + gpu + `}, {name: launcher, ` + trainer + cpu + `}` + tail,
		},
		"MPI: the workers go with the launcher's GPUs": {
			trainJob: onAlps, want: []string{"node", "launcher"},
			runtime: mpiHead + `{name: node, ` + other + cpu + `}, {name: launcher, ` + trainer + gpu + `}` + tail,
		},
		"MPI without a GPU: launcher and workers": {
			trainJob: onAlps, want: []string{"node", "launcher"},
			runtime: mpiHead + `{name: data, ` + other + cpu + `}, {name: node, ` + other + cpu + `}, {name: launcher, ` + trainer + cpu + `}` + tail,
		},
		"the cluster may be a label of the TrainJob": {
			trainJob: `{metadata: {name: llm, labels: {gangline.dev/cluster: alps}}}`, want: []string{"node"},
			runtime: head + `{name: node, ` + trainer + cpu + `}` + tail,
		},
		"no cluster, no placement": {
			trainJob: `{metadata: {name: llm, annotations: {gangline.dev/partition: gpu}}}`,
			runtime:  head + `{name: node, ` + trainer + gpu + `}` + tail,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			info := place(t, tt.trainJob, tt.runtime)
			var placed []string
			for i := range info.PodSets {
				p := &info.PodSets[i]
				if p.Pod().NodeSelector["gangline.dev/cluster"] != "alps" {
					assert.Empty(t, p.Pod().NodeSelector, p.Name)
					assert.Empty(t, p.Pod().Tolerations, p.Name)
					continue
				}
				placed = append(placed, p.Name)
			}
			assert.Equal(t, tt.want, placed)
		})
	}
}

func TestHowPodsAreBound(t *testing.T) {
	ours := corev1.Toleration{Key: "virtual-kubelet.io/provider", Operator: "Equal", Value: "gangline", Effect: "NoSchedule"}
	tests := map[string]struct {
		pod         string
		selector    map[string]string
		tolerations []corev1.Toleration
	}{
		"a plain template": {
			pod: cpu, selector: map[string]string{"gangline.dev/cluster": "alps"}, tolerations: []corev1.Toleration{ours},
		},
		"what the template has stays": {
			pod:         near,
			selector:    map[string]string{"rack": "a", "gangline.dev/cluster": "alps"},
			tolerations: []corev1.Toleration{{Key: "gpu"}, ours},
		},
		"the toleration is there already": {
			pod: tolerant, selector: map[string]string{"gangline.dev/cluster": "alps"}, tolerations: []corev1.Toleration{ours},
		},
		"a template that names a cluster is left": {
			pod: selected, selector: map[string]string{"gangline.dev/cluster": "daint"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			info := place(t, onAlps, head+`{name: node, `+trainer+tt.pod+`}`+tail)
			pod := info.PodSets[0].Pod()
			assert.Equal(t, tt.selector, pod.NodeSelector)
			assert.Equal(t, tt.tolerations, pod.Tolerations)
			assert.Equal(t, pod, &info.Template.ReplicatedJobs[0].Template.Spec.Template.Spec, "the template has it")
		})
	}
}

func TestPodsTolerateTheVirtualNode(t *testing.T) {
	info := place(t, onAlps, head+`{name: node, `+trainer+cpu+`}`+tail)
	tolerations := info.PodSets[0].Pod().Tolerations
	require.Len(t, tolerations, 1)
	taint := provider.NodeTaint()
	assert.Equal(t, corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect}, tolerations[0])
}

func TestTheTrainersImageIsItsOtherProcessesToo(t *testing.T) {
	const (
		mpi = `spec: {mlPolicy: {mpi: {mpiImplementation: OpenMPI}}, template: {spec: {replicatedJobs: [`
		job = `{metadata: {name: pi, annotations: {gangline.dev/cluster: alps}}, spec: {trainer: {image: "team/pi:1"}}}`
	)
	image := func(image string) string { return `{containers: [{name: node, image: "` + image + `"}]}}}}` }
	images := func(runtime string) []string {
		info := place(t, job, `{`+mpi+`{name: launcher, `+trainer+image("host")+`}, {name: node, `+other+image(runtime)+`}]}}}}`)
		var all []string
		for i := range info.PodSets {
			all = append(all, info.PodSets[i].Pod().Containers[0].Image)
		}
		return all
	}
	assert.Equal(t, "team/pi:1", images("host")[1])
	assert.Equal(t, "sshd:2", images("sshd:2")[1], "what the runtime names stays")
}
