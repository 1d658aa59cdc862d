package jobset

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/trainertest"
)

// problem is an error as far as clients compare it.
type problem struct{ kind, field, text string }

func validate(t *testing.T, reader client.Reader, trainJob, old, runtime string) []problem {
	t.Helper()
	info, new := trainertest.Info(t, trainJob, runtime)
	var before *v1alpha1.TrainJob
	if old != "" {
		before = trainertest.Input(t, old, runtime).TrainJob
	}
	warnings, errs := New(reader).Validate(t.Context(), info, before, new)
	assert.Empty(t, warnings)
	var problems []problem
	for _, err := range errs {
		problems = append(problems, problem{string(err.Type), err.Field, err.Detail})
	}
	return problems
}

const tuneRuntime = `
metadata: {name: torchtune}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [
            {name: dataset-initializer, volumeMounts: [{name: initializer, mountPath: /workspace}]}]}}}
      - name: model-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: model-initializer}}
          spec: {template: {spec: {containers: [
            {name: model-initializer, volumeMounts: [{name: initializer, mountPath: /workspace}]}]}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {initContainers: [{name: wait}], containers: [{name: node}, {name: sidecar}]}}}
`

// jobs is a runtime of replicated jobs, one a line.
func jobs(lines string) string {
	return "metadata: {name: r}\nspec:\n  mlPolicy: {numNodes: 1}\n  template:\n    spec:\n      replicatedJobs:\n" + lines
}

func TestInitializersNeedTheirPlaceInTheRuntime(t *testing.T) {
	both := `{metadata: {name: llm}, spec: {initializer: {dataset: {}, model: {}}}}`
	invalid := func(text string) problem { return problem{"FieldValueInvalid", "spec.runtimeRef", text} }
	tests := map[string]struct {
		trainJob, runtime string
		want              []problem
	}{
		"both have it": {trainJob: both, runtime: tuneRuntime},
		"no initializer, nothing to find": {
			trainJob: `{metadata: {name: llm}, spec: {initializer: {}}}`, runtime: jobs(`      - name: node`),
		},
		"no job": {trainJob: both, runtime: jobs(`      - name: node`), want: []problem{
			invalid("must have dataset-initializer job when trainJob is configured with input datasetConfig"),
			invalid("must have model-initializer job when trainJob is configured with input modelConfig"),
		}},
		"no container": {trainJob: both, runtime: jobs(`
      - {name: dataset-initializer, template: {spec: {template: {spec: {containers: [{name: other}]}}}}}
      - {name: model-initializer, template: {spec: {template: {spec: {containers: [{name: other}]}}}}}`), want: []problem{
			invalid("must have container with name - dataset-initializer in the dataset-initializer job"),
			invalid("must have container with name - model-initializer in the model-initializer job"),
		}},
		"no volume": {trainJob: both, runtime: jobs(`
      - {name: dataset-initializer, template: {spec: {template: {spec: {containers: [
          {name: dataset-initializer, volumeMounts: [{name: other, mountPath: /workspace}]}]}}}}}
      - {name: model-initializer, template: {spec: {template: {spec: {initContainers: [
          {name: model-initializer, volumeMounts: [{name: initializer, mountPath: /workspace}]}]}}}}}`), want: []problem{
			invalid("must have volumeMount with name - initializer in container dataset-initializer of the dataset-initializer job"),
			invalid("must have volumeMount with name - initializer in container model-initializer of the model-initializer job"),
		}},
		"a patch may mount the volume": {
			trainJob: `
metadata: {name: llm}
spec:
  initializer: {dataset: {}}
  runtimePatches: [{manager: a.io/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [
    {name: dataset-initializer, template: {spec: {template: {spec: {containers: [
      {name: dataset-initializer, volumeMounts: [{name: initializer, mountPath: /data}]}]}}}}}]}}}}]
`,
			runtime: jobs(`      - {name: dataset-initializer, template: {spec: {template: {spec: {containers: [{name: dataset-initializer}]}}}}}`),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, validate(t, nil, tt.trainJob, "", tt.runtime))
		})
	}
}

// patched is a TrainJob with one patch of one job's pods.
func patched(job, pods string) string {
	return `
metadata: {name: llm}
spec:
  runtimePatches:
  - manager: kueue.x-k8s.io/manager
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [
      {name: ` + job + `, template: {spec: {template: {spec: ` + pods + `}}}}]}}}
`
}

func TestPatchesMustFitTheRuntime(t *testing.T) {
	invalid := func(text string) []problem { return []problem{{"FieldValueInvalid", "spec.runtimePatches", text}} }
	const env = "must not have envs for the dataset-initializer, model-initializer, node containers"
	kep := jobs(`
      - {name: trainer-node, template: {spec: {template: {
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {containers: [{name: trainer}, {name: sidecar}]}}}}}
      - {name: watcher, template: {spec: {template: {spec: {containers: [{name: trainer}]}}}}}`)
	tests := map[string]struct {
		trainJob, runtime string
		want              []problem
	}{
		"scheduling of a job that exists": {trainJob: patched("node", `{nodeSelector: {rack: a}, tolerations: [{key: gpu}]}`)},
		"metadata only":                   {trainJob: `{metadata: {name: llm}, spec: {runtimePatches: [{manager: a.io/m, trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}}]}}`},
		"a job without a change":          {trainJob: `{metadata: {name: llm}, spec: {runtimePatches: [{manager: a.io/m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node}]}}}}]}}`},
		"a manager that is no path": {
			trainJob: `{metadata: {name: llm}, spec: {runtimePatches: [{manager: invalid}]}}`,
			want:     []problem{{"FieldValueInvalid", "spec.runtimePatches.manager", `must be a domain-prefixed path (such as "acme.io/foo")`}},
		},
		"an unknown job": {
			trainJob: patched("nodes", `{nodeSelector: {rack: a}}`),
			want:     invalid("must not have replicated job that doesn't exist in the runtime job template"),
		},
		"an unknown init container": {
			trainJob: patched("node", `{initContainers: [{name: init}]}`),
			want:     invalid("must not have initContainer that doesn't exist in the runtime job node"),
		},
		"an init container that is a container": {
			trainJob: patched("node", `{initContainers: [{name: sidecar}]}`),
			want:     invalid("must not have initContainer that doesn't exist in the runtime job node"),
		},
		"an unknown container": {
			trainJob: patched("node", `{containers: [{name: trainer}]}`),
			want:     invalid("must not have container that doesn't exist in the runtime job node"),
		},
		"the environment of the training container": {trainJob: patched("node", `{containers: [{name: node, env: [{name: A}]}]}`), want: invalid(env)},
		"the environment of an initializer": {
			trainJob: patched("model-initializer", `{containers: [{name: model-initializer, env: [{name: A}]}]}`), want: invalid(env),
		},
		"a mount of the training container":     {trainJob: patched("node", `{containers: [{name: node, volumeMounts: [{name: a, mountPath: /a}]}]}`)},
		"the environment of another container":  {trainJob: patched("node", `{containers: [{name: sidecar, env: [{name: A}]}]}`)},
		"the environment of an init container":  {trainJob: patched("node", `{initContainers: [{name: wait, env: [{name: A}]}]}`)},
		"the environment of the KEP's trainer":  {trainJob: patched("trainer-node", `{containers: [{name: trainer, env: [{name: A}]}]}`), runtime: kep, want: invalid("must not have envs for the dataset-initializer, model-initializer, trainer containers")},
		"that of one that is only called so":    {trainJob: patched("watcher", `{containers: [{name: trainer, env: [{name: A}]}]}`), runtime: kep},
		"that of a container beside the KEP's":  {trainJob: patched("trainer-node", `{containers: [{name: sidecar, env: [{name: A}]}]}`), runtime: kep},
		"a mount of the KEP's trainer is left":  {trainJob: patched("trainer-node", `{containers: [{name: trainer, volumeMounts: [{name: a, mountPath: /a}]}]}`), runtime: kep},
		"an environment without any variables":  {trainJob: patched("node", `{containers: [{name: node, env: []}]}`)},
		"a service account and an affinity too": {trainJob: patched("node", `{serviceAccountName: sa, affinity: {}, terminationGracePeriodSeconds: 0}`)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.runtime == "" {
				tt.runtime = tuneRuntime
			}
			assert.Equal(t, tt.want, validate(t, nil, tt.trainJob, "", tt.runtime))
		})
	}
}

func TestPatchesChangeOnlyWhileNothingRuns(t *testing.T) {
	trainJob := func(suspend, rack string) string {
		return patched("node", `{nodeSelector: {rack: `+rack+`}}`) + "  suspend: " + suspend + "\n"
	}
	idle := `{metadata: {name: llm, namespace: default}, status: {replicatedJobsStatus: [{name: node, active: 0, suspended: 1}]}}`
	active := `{metadata: {name: llm, namespace: default}, status: {replicatedJobsStatus: [
      {name: dataset-initializer, active: 0}, {name: model-initializer, active: 1}, {name: node, active: 1}]}}`
	forbidden := func(texts ...string) (problems []problem) {
		for _, text := range texts {
			problems = append(problems, problem{"FieldValueForbidden", "spec.runtimePatches", text})
		}
		return problems
	}
	tests := map[string]struct {
		old, new, jobSet string
		want             []problem
	}{
		"a running TrainJob": {
			old: trainJob("false", "a"), new: trainJob("false", "b"), jobSet: idle,
			want: forbidden("RuntimePatches can only be modified when the TrainJob is suspended before or after the update"),
		},
		"no change":                     {old: trainJob("false", "a"), new: trainJob("false", "a"), jobSet: active},
		"suspended before and after":    {old: trainJob("true", "a"), new: trainJob("true", "b"), jobSet: idle},
		"resumed in the same request":   {old: trainJob("true", "a"), new: trainJob("false", "b"), jobSet: idle},
		"suspended in the same request": {old: trainJob("false", "a"), new: trainJob("true", "b"), jobSet: idle},
		"there is no JobSet yet":        {old: trainJob("true", "a"), new: trainJob("true", "b")},
		"suspended, but not all pods are gone": {
			old: trainJob("true", "a"), new: trainJob("true", "b"), jobSet: active,
			want: forbidden(
				"RuntimePatches cannot be modified when the JobSet's ReplicatedJob model-initializer is still active",
				"RuntimePatches cannot be modified when the JobSet's ReplicatedJob node is still active"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme(t))
			if tt.jobSet != "" {
				builder.WithObjects(trainertest.Parse[jobsetv1alpha2.JobSet](t, tt.jobSet))
			}
			assert.Equal(t, tt.want, validate(t, builder.Build(), tt.new, tt.old, tuneRuntime))
		})
	}

	t.Run("nobody knows whether it is active", func(t *testing.T) {
		reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errors.New("connection refused")
			},
		}).Build()
		assert.Equal(t,
			[]problem{{"InternalError", "spec.runtimePatches", "reading the JobSet, to see whether it is active: connection refused"}},
			validate(t, reader, trainJob("true", "b"), trainJob("true", "a"), tuneRuntime))
	})
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, jobsetv1alpha2.AddToScheme(s))
	return s
}

func TestTheNumberOfNodesIsOneThatAJobTakes(t *testing.T) {
	runtime := jobs("      - name: node\n        template: {spec: {template: {spec: {containers: [{name: node}]}}}}")
	for n, refused := range map[string]bool{"0": false, "100000": false, "-1": true, "100001": true, "2000000000": true} {
		var want []problem
		if refused {
			want = []problem{{"FieldValueInvalid", "spec.trainer.numNodes", "must be between 0 and 100000"}}
		}
		assert.Equal(t, want, validate(t, nil, `{metadata: {name: tj}, spec: {trainer: {numNodes: `+n+`}}}`, "", runtime), n)
	}
}
