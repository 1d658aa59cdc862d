package podgroup

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/trainertest"
)

func object(namespace, name string) client.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func builder(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(s))
	trainJob := func(text string) client.Object { return trainertest.Parse[v1alpha1.TrainJob](t, text) }
	with := `spec: {template: {spec: {replicatedJobs: [{name: a}, {name: b, template: {spec: {template: {spec: {runtimeClassName: nvidia}}}}}]}}}`
	without := `spec: {template: {spec: {replicatedJobs: [{name: a}]}}}`
	return fake.NewClientBuilder().WithScheme(s).WithObjects(
		trainertest.Parse[v1alpha1.ClusterTrainingRuntime](t, `{metadata: {name: gpu}, `+with+`}`),
		trainertest.Parse[v1alpha1.ClusterTrainingRuntime](t, `{metadata: {name: cpu}, `+without+`}`),
		trainertest.Parse[v1alpha1.TrainingRuntime](t, `{metadata: {name: cpu, namespace: red}, `+with+`}`),
		trainJob(`{metadata: {name: suspended, namespace: red}, spec: {suspend: true, runtimeRef: {name: gpu}}}`),
		trainJob(`{metadata: {name: own, namespace: red}, spec: {suspend: true, runtimeRef: {name: cpu, kind: TrainingRuntime}}}`),
		trainJob(`{metadata: {name: plain, namespace: red}, spec: {suspend: true, runtimeRef: {name: cpu, kind: ClusterTrainingRuntime}}}`),
		trainJob(`{metadata: {name: running, namespace: red}, spec: {suspend: false, runtimeRef: {name: gpu}}}`),
		trainJob(`{metadata: {name: suspended, namespace: blue}, spec: {suspend: true, runtimeRef: {name: gpu}}}`),
		trainJob(`{metadata: {name: own, namespace: blue}, spec: {suspend: true, runtimeRef: {name: cpu, kind: TrainingRuntime}}}`),
	)
}

func mapped(ctx context.Context, watch framework.Watch, object client.Object) []string {
	var names []string
	for _, request := range watch.Map(ctx, object) {
		names = append(names, request.String())
	}
	return names
}

func TestWatches(t *testing.T) {
	watches := Watches(groups, builder(t).Build())
	require.Len(t, watches, 3)
	kinds := make([]string, 0, len(watches))
	for _, w := range watches {
		assert.True(t, w.Optional)
		assert.IsType(t, &metav1.PartialObjectMetadata{}, w.Object, "only metadata is needed")
		kinds = append(kinds, w.Object.GetObjectKind().GroupVersionKind().String())
	}
	assert.Equal(t, []string{
		"scheduling.example.com/v1, Kind=PodGroup", "/v1, Kind=LimitRange", "node.k8s.io/v1, Kind=RuntimeClass",
	}, kinds)
	assert.Nil(t, watches[0].Map, "a PodGroup concerns the TrainJob that controls it")

	assert.ElementsMatch(t, []string{"red/suspended", "red/own", "red/plain"}, mapped(t.Context(), watches[1], object("red", "limits")))
	assert.Empty(t, mapped(t.Context(), watches[1], object("green", "limits")))
	assert.ElementsMatch(t, []string{"red/suspended", "red/own", "blue/suspended"}, mapped(t.Context(), watches[2], object("", "nvidia")))
	assert.Empty(t, mapped(t.Context(), watches[2], object("", "gvisor")))
}

func TestAFailedListingConcernsNoTrainJob(t *testing.T) {
	reader := builder(t).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("connection refused")
		},
	}).Build()
	watches := Watches(groups, reader)
	assert.Empty(t, mapped(t.Context(), watches[1], object("red", "limits")))
	assert.Empty(t, mapped(t.Context(), watches[2], object("", "nvidia")))
}
