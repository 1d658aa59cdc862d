package jobset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetac "sigs.k8s.io/jobset/client-go/applyconfiguration/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/trainertest"
	"github.com/gangline/gangline/test/golden"
)

// build makes the JobSet of a TrainJob and a runtime from files of testdata.
func build(t *testing.T, name string, change func(*framework.Info)) *jobsetv1alpha2.JobSet {
	t.Helper()
	info, trainJob := trainertest.Info(t, read(t, name+".trainjob.yaml"), read(t, name+".runtime.yaml"))
	if change != nil {
		change(info)
	}
	before := trainertest.YAML(t, info.Template)

	components, err := New(nil).Build(t.Context(), info, trainJob)
	require.NoError(t, err)
	require.Len(t, components, 1)
	c := components[0]
	assert.Equal(t, framework.UntilStarted, c.Policy)
	assert.Equal(t, "default/"+trainJob.Name, c.Kind.GetNamespace()+"/"+c.Kind.GetName())
	object, err := c.Object()
	require.NoError(t, err)

	assert.Equal(t, before, trainertest.YAML(t, info.Template), "info has changed")
	require.IsType(t, c.Kind, object)
	return object.(*jobsetv1alpha2.JobSet)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	return string(text)
}

// Each case has testdata/<file>.runtime.yaml, .trainjob.yaml and .jobset.yaml.
func TestJobSetOfATrainJob(t *testing.T) {
	tests := map[string]struct {
		file   string
		change func(*framework.Info)
	}{
		"without a trainer section: the template, with counts and one Job for each step": {file: "bare"},
		"initializers and trainer say what their containers run":                         {file: "full"},
		"a scheduler's labels and annotations reach the pods of every job": {file: "scheduled", change: func(i *framework.Info) {
			i.PodLabels["scheduling.x-k8s.io/pod-group"] = "llm"
			i.PodAnnotations["scheduling.k8s.io/group-name"] = "llm"
		}},
		"the KEP's names: label on the pods, container trainer":             {file: "kep"},
		"the workers of a launcher that is a node get the environment only": {file: "mpi"},
		"a plugin's trainer counts, not the TrainJob's": {file: "rewritten", change: func(i *framework.Info) {
			i.Trainer.Command = []string{"/bin/bash", "/etc/flux-config/entrypoint.sh", "python train.py"}
			i.Trainer.Args = nil
			i.PodSets[0].Count = 3
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			jobSet := build(t, tt.file, tt.change)
			text, err := yaml.JSONToYAML([]byte(withoutStatus(t, jobSet)))
			require.NoError(t, err)
			got := string(text)
			golden.Equal(t, filepath.Join("testdata", tt.file+".jobset.yaml"), got)
			assert.JSONEq(t, applied(t, jobSet), withoutStatus(t, jobSet))
		})
	}
}

// applied is a JobSet as an apply configuration holds it, which is what Kubeflow
// Trainer sends.
func applied(t *testing.T, jobSet *jobsetv1alpha2.JobSet) string {
	t.Helper()
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(jobSet)
	require.NoError(t, err)
	text, err := json.Marshal(u)
	require.NoError(t, err)
	var configuration jobsetac.JobSetApplyConfiguration
	require.NoError(t, json.Unmarshal(text, &configuration))
	configuration.Status = nil
	text, err = json.Marshal(configuration)
	require.NoError(t, err)
	return string(text)
}

func withoutStatus(t *testing.T, jobSet *jobsetv1alpha2.JobSet) string {
	t.Helper()
	text, err := json.Marshal(jobSet)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	delete(fields, "status")
	text, err = json.Marshal(fields)
	require.NoError(t, err)
	return string(text)
}

func TestAnEmptyListTakesTheRuntimesAway(t *testing.T) {
	jobSet := build(t, "rewritten", func(i *framework.Info) { i.Trainer.Args = []string{} })
	c := jobSet.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0]
	assert.Equal(t, []string{"python"}, c.Command)
	assert.Empty(t, c.Args)
}

func TestObjectIsTheSameEachTime(t *testing.T) {
	info, trainJob := trainertest.Info(t, read(t, "full.trainjob.yaml"), read(t, "full.runtime.yaml"))
	first := object(info, trainJob)
	first.Spec.ReplicatedJobs[2].Template.Spec.Template.Spec.Containers[0].Env[0].Value = "changed by whoever has it"
	*first.Spec.Suspend = true

	second := object(info, trainJob)
	assert.Equal(t, "1", second.Spec.ReplicatedJobs[2].Template.Spec.Template.Spec.Containers[0].Env[0].Value)
	assert.False(t, *second.Spec.Suspend)
	assert.Equal(t, []corev1.EnvVar{{Name: "EPOCHS", Value: "20"}, {Name: "EXTRA", Value: "x"}}, info.Trainer.Env)
}
