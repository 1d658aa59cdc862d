package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/plugins"
	"github.com/gangline/gangline/controller/trainertest"
	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

const (
	runtimesDir  = "../../charts/gangline/files/runtimes"
	trainJobsDir = "../../examples/trainjobs"
)

// TestRuntimes builds the example of every runtime that we ship. The golden
// files are all that a user gets for it.
func TestRuntimes(t *testing.T) {
	for name, manifest := range runtimes(t) {
		t.Run(name, func(t *testing.T) {
			in := trainertest.Input(t, read(t, filepath.Join(trainJobsDir, name+".yaml")), manifest)
			require.Equal(t, name, in.TrainJob.Spec.RuntimeRef.Name, "the example's runtime")
			p := newPipeline(t)

			warnings, errs := p.Validate(t.Context(), in, nil)
			require.Empty(t, errs)
			assert.Empty(t, warnings)
			components, err := p.Build(t.Context(), in)
			require.NoError(t, err)
			golden.Equal(t, "testdata/"+name+".yaml", text(t, components))
		})
	}
}

// TestSDKListsRuntimes: the SDK's client passes over, or fails at, a runtime
// that lacks one of these.
func TestSDKListsRuntimes(t *testing.T) {
	for name, manifest := range runtimes(t) {
		t.Run(name, func(t *testing.T) {
			r := trainertest.Parse[v1alpha1.ClusterTrainingRuntime](t, manifest)
			require.Equal(t, name, r.Name)
			assert.NotEmpty(t, r.Labels[v1alpha1.LabelFramework])
			assert.NotNil(t, r.Spec.MLPolicy)
			info, err := pipeline.NewInfo(pipeline.Input{TrainJob: &v1alpha1.TrainJob{}, Runtime: r.Spec})
			require.NoError(t, err)
			step := info.Step(v1alpha1.AncestorTrainer)
			require.NotNil(t, step, "a job of the trainer step")
			node := step.Container(v1alpha1.ContainerNode)
			require.NotNil(t, node, "its container")
			assert.NotEmpty(t, node.Image)
		})
	}
}

// TestHPCRuntimesFitTheVirtualNode: whatever the runtimes for the HPC side ask
// for is there, with nothing refused and nothing ignored.
func TestHPCRuntimesFitTheVirtualNode(t *testing.T) {
	site := translate.Site{HostPaths: []string{"/shared"}}
	seen := 0
	for name, manifest := range runtimes(t) {
		in := trainertest.Input(t, read(t, filepath.Join(trainJobsDir, name+".yaml")), manifest)
		if in.RuntimeMeta.Annotations[wellknown.Cluster] == "" {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			for _, pod := range pods(t, in) {
				assert.Nil(t, translate.Admit(pod, site), pod.Name)
				assert.Empty(t, translate.Warnings(pod, site), pod.Name)
			}
		})
	}
	assert.NotZero(t, seen)
}

// runtimes are the manifests below charts/gangline/files/runtimes, by name.
func runtimes(t *testing.T) map[string]string {
	t.Helper()
	manifests := map[string]string{}
	for _, pattern := range []string{"*.yaml", "hpc/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(runtimesDir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			manifests[strings.TrimSuffix(filepath.Base(file), ".yaml")] = read(t, file)
		}
	}
	return manifests
}

func newPipeline(t *testing.T) *pipeline.Pipeline {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, jobsetv1alpha2.AddToScheme(scheme))
	reader := fake.NewClientBuilder().WithScheme(scheme).Build()
	return pipeline.New(plugins.All(plugins.Options{Reader: reader})...)
}

// text is the components as documents of a YAML file. What is made once, such as
// keys, differs each time: only its names are shown.
func text(t *testing.T, components []framework.Component) string {
	t.Helper()
	var all strings.Builder
	for _, c := range components {
		object, err := c.Object()
		require.NoError(t, err)
		assert.Equal(t, c.Kind.GetName(), object.GetName(), "the name that is known before")
		if secret, ok := object.(*corev1.Secret); ok && c.Policy == framework.Once {
			for key := range secret.Data {
				secret.Data[key] = []byte("random")
			}
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		require.NoError(t, err)
		delete(fields, "status") // never applied
		fmt.Fprintf(&all, "---\n%s", trainertest.YAML(t, fields))
	}
	return all.String()
}

// pods are those of the JobSet, one of each replicated job.
func pods(t *testing.T, in pipeline.Input) []*corev1.Pod {
	t.Helper()
	components, err := newPipeline(t).Build(t.Context(), in)
	require.NoError(t, err)
	var all []*corev1.Pod
	for _, c := range components {
		object, err := c.Object()
		require.NoError(t, err)
		if set, ok := object.(*jobsetv1alpha2.JobSet); ok {
			all = append(all, podsOf(set)...)
		}
	}
	require.NotEmpty(t, all)
	return all
}

func podsOf(set *jobsetv1alpha2.JobSet) []*corev1.Pod {
	var all []*corev1.Pod
	for _, job := range set.Spec.ReplicatedJobs {
		template := job.Template.Spec.Template
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
		pod.Namespace, pod.Name = set.Namespace, set.Name+"-"+job.Name
		all = append(all, pod)
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}
