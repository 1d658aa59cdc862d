package volcano

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/controller/trainertest"
)

const trainJob = `{metadata: {name: llm}}`

// volcanoRuntime has three jobs with a priority each, "" for none.
func volcanoRuntime(policy, annotations string, priorities [3]string) string {
	job := func(name, class string) string {
		return `{name: ` + name + `, template: {spec: {template: {spec: {priorityClassName: "` + class +
			`", containers: [{name: node, resources: {requests: {cpu: 2}}}]}}}}}`
	}
	return `
spec:
  podGroupPolicy: ` + policy + `
  template:
    metadata: {annotations: ` + annotations + `}
    spec:
      replicatedJobs: [` + job("a", priorities[0]) + `, ` + job("b", priorities[1]) + `, ` + job("c", priorities[2]) + `]
`
}

const metadata = `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: llm
  namespace: default
  ownerReferences:
  - apiVersion: trainer.kubeflow.org/v1alpha1
    blockOwnerDeletion: true
    controller: true
    kind: TrainJob
    name: llm
    uid: 5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908
`

func TestPodGroup(t *testing.T) {
	tests := map[string]struct {
		policy, annotations string
		priorities          [3]string
		want                string // "" for none
	}{
		"members and resources only": {
			policy: `{volcano: {}}`, annotations: `{}`,
			want: metadata + `spec: {minMember: 3, minResources: {cpu: "6"}}`,
		},
		"queue of the annotation, priority of the last template that has one, topology": {
			policy:      `{volcano: {networkTopology: {mode: soft, highestTierAllowed: 2}}}`,
			annotations: `{scheduling.volcano.sh/queue-name: gpus}`,
			priorities:  [3]string{"low", "high", ""},
			want: metadata + `spec: {minMember: 3, minResources: {cpu: "6"}, queue: gpus, priorityClassName: high,
  networkTopology: {mode: soft, highestTierAllowed: 2}}`,
		},
		"the API's defaults of the topology": {
			policy: `{volcano: {networkTopology: {}}}`, annotations: `{}`,
			want: metadata + `spec: {minMember: 3, minResources: {cpu: "6"}, networkTopology: {mode: hard, highestTierAllowed: 1}}`,
		},
		"no policy":      {policy: `null`, annotations: `{}`},
		"another policy": {policy: `{coscheduling: {}}`, annotations: `{}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, trainJob, volcanoRuntime(tt.policy, tt.annotations, tt.priorities))
			p := New(nil)
			require.NoError(t, p.EnforcePodGroupPolicy(info, trainJob))
			assert.Empty(t, info.PodLabels)

			components, err := p.Build(t.Context(), info, trainJob)
			require.NoError(t, err)
			if tt.want == "" {
				assert.Empty(t, components)
				assert.Empty(t, info.PodAnnotations)
				return
			}
			assert.Equal(t, map[string]string{"scheduling.k8s.io/group-name": "llm"}, info.PodAnnotations)
			require.Len(t, components, 1)
			object, err := components[0].Object()
			require.NoError(t, err)
			assert.YAMLEq(t, tt.want, trainertest.YAML(t, object))
		})
	}
}

func TestWatchesItsPodGroups(t *testing.T) {
	watches := New(nil).Watches()
	require.NotEmpty(t, watches)
	assert.Equal(t, "scheduling.volcano.sh/v1beta1, Kind=PodGroup", watches[0].Object.GetObjectKind().GroupVersionKind().String())
}

func TestValidate(t *testing.T) {
	const missing = `spec.templateSpec.priorityClassName: Invalid value: "missing": PriorityClass "missing" doesn't exist: ` +
		`priorityclasses.scheduling.k8s.io "missing" not found`
	tests := map[string]struct {
		policy, annotations string
		priorities          [3]string
		want                []string
	}{
		"queue and class exist": {
			policy: `{volcano: {}}`, annotations: `{scheduling.volcano.sh/queue-name: gpus}`, priorities: [3]string{"", "high", ""},
		},
		"the system's classes exist always": {
			policy: `{volcano: {}}`, annotations: `{}`, priorities: [3]string{"system-cluster-critical", "system-node-critical", ""},
		},
		"an empty queue": {
			policy: `{volcano: {}}`, annotations: `{scheduling.volcano.sh/queue-name: ""}`,
			want: []string{`spec.annotations[scheduling.volcano.sh/queue-name]: Invalid value: "": Volcano queue name must not be empty`},
		},
		"a class that is not there": {
			policy: `{volcano: {}}`, annotations: `{}`, priorities: [3]string{"missing", "high", ""}, want: []string{missing},
		},
		"a system's class does not hide it": {
			policy: `{volcano: {}}`, annotations: `{}`, priorities: [3]string{"system-node-critical", "missing", ""}, want: []string{missing},
		},
		"another policy": {
			policy: `{coscheduling: {}}`, annotations: `{scheduling.volcano.sh/queue-name: ""}`, priorities: [3]string{"missing", "", ""},
		},
		"no policy": {policy: `null`, annotations: `{}`, priorities: [3]string{"missing", "", ""}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			reader := classes(t).Build()
			assert.Equal(t, tt.want, validate(t, reader, volcanoRuntime(tt.policy, tt.annotations, tt.priorities)))
		})
	}

	t.Run("nobody knows whether the class exists", func(t *testing.T) {
		reader := classes(t).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errors.New("connection refused")
			},
		}).Build()
		assert.Equal(t,
			[]string{`spec.templateSpec.priorityClassName: Internal error: reading PriorityClass high: connection refused`},
			validate(t, reader, volcanoRuntime(`{volcano: {}}`, `{}`, [3]string{"high", "", ""})))
	})
}

func classes(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, schedulingv1.AddToScheme(s))
	return fake.NewClientBuilder().WithScheme(s).WithObjects(
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}})
}

func validate(t *testing.T, reader client.Reader, runtime string) []string {
	t.Helper()
	info, job := trainertest.Info(t, trainJob, runtime)
	warnings, errs := New(reader).Validate(t.Context(), info, nil, job)
	assert.Empty(t, warnings)
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}
