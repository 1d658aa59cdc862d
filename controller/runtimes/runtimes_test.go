package runtimes_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/runtimes"
	"github.com/gangline/gangline/controller/trainertest"
)

const (
	namespaced = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: torch, namespace: team-a, annotations: {gangline.dev/cluster: alps}}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
`
	clusterWide = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 3, torch: {}}
`
	namespace = `
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {gangline.dev/cluster: daint}}
`
)

func trainJob(t *testing.T, runtimeRef string) *v1alpha1.TrainJob {
	t.Helper()
	return trainertest.Parse[v1alpha1.TrainJob](t, `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team-a, uid: 5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908}
spec: {runtimeRef: `+runtimeRef+`}
`)
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, v1alpha1.AddToScheme(s))
	return s
}

func world(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(
		trainertest.Parse[v1alpha1.TrainingRuntime](t, namespaced),
		trainertest.Parse[v1alpha1.ClusterTrainingRuntime](t, clusterWide),
		trainertest.Parse[corev1.Namespace](t, namespace),
	)
}

func TestInput(t *testing.T) {
	cases := map[string]struct {
		runtimeRef string
		nodes      int32
	}{
		"a runtimeRef with a name only is a ClusterTrainingRuntime's": {
			`{name: torch}`, 3,
		},
		"a TrainingRuntime is the one of the TrainJob's namespace": {
			`{name: torch, kind: TrainingRuntime}`, 2,
		},
		"a runtimeRef with everything": {
			`{name: torch, kind: ClusterTrainingRuntime, apiGroup: trainer.kubeflow.org}`, 3,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job := trainJob(t, c.runtimeRef)
			in, err := runtimes.Loader{Reader: world(t).Build()}.Input(t.Context(), job)
			require.NoError(t, err)
			assert.Same(t, job, in.TrainJob)
			assert.Equal(t, c.nodes, *in.Runtime.MLPolicy.NumNodes)
			assert.Equal(t, "torch", in.RuntimeMeta.Name)
			assert.Equal(t, "daint", in.NamespaceMeta.Labels["gangline.dev/cluster"])
		})
	}
}

func TestRuntimesThatAreNot(t *testing.T) {
	cases := map[string]struct {
		runtimeRef string
		text       string
		notFound   bool
	}{
		"an unknown kind": {
			runtimeRef: `{name: torch, kind: Runtime}`,
			text:       "unsupported runtime: Runtime.trainer.kubeflow.org",
		},
		"an unknown group": {
			runtimeRef: `{name: torch, kind: TrainingRuntime, apiGroup: example.org}`,
			text:       "unsupported runtime: TrainingRuntime.example.org",
		},
		"a group that is given as empty": {
			runtimeRef: `{name: torch, kind: TrainingRuntime, apiGroup: ""}`,
			text:       "unsupported runtime: TrainingRuntime",
		},
		"a ClusterTrainingRuntime that does not exist": {
			runtimeRef: `{name: jax}`,
			text:       `clustertrainingruntimes.trainer.kubeflow.org "jax" not found`,
			notFound:   true,
		},
		"a TrainingRuntime that does not exist": {
			runtimeRef: `{name: jax, kind: TrainingRuntime}`,
			text:       `trainingruntimes.trainer.kubeflow.org "jax" not found`,
			notFound:   true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job := trainJob(t, c.runtimeRef)
			_, err := runtimes.Loader{Reader: world(t).Build()}.Input(t.Context(), job)
			require.EqualError(t, err, c.text)
			assert.Equal(t, c.notFound, apierrors.IsNotFound(err))
			assert.Equal(t, !c.notFound, errors.Is(err, runtimes.ErrUnsupportedRuntime))
			supported := runtimes.Supported(job.Spec.RuntimeRef)
			assert.Equal(t, c.notFound, supported == nil, "%v", supported)
		})
	}
}

func TestFailedReadsSayWhatWasRead(t *testing.T) {
	cases := map[string]struct {
		fails func(client.Object) bool
		text  string
	}{
		"the runtime": {
			func(o client.Object) bool { _, is := o.(*v1alpha1.ClusterTrainingRuntime); return is },
			"reading ClusterTrainingRuntime torch: out of order",
		},
		"the namespace": {
			func(o client.Object) bool { _, is := o.(*metav1.PartialObjectMetadata); return is },
			"reading the namespace of TrainJob job: out of order",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reader := world(t).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if c.fails(o) {
						return errors.New("out of order")
					}
					return w.Get(ctx, key, o, options...)
				},
			}).Build()
			_, err := runtimes.Loader{Reader: reader}.Input(t.Context(), trainJob(t, `{name: torch}`))
			require.EqualError(t, err, c.text)
			assert.False(t, apierrors.IsNotFound(err))
		})
	}
}

func TestKey(t *testing.T) {
	assert.Equal(t, client.ObjectKey{Name: "torch"}, runtimes.Key(trainJob(t, `{name: torch}`)))
	assert.Equal(t, client.ObjectKey{Namespace: "team-a", Name: "torch"},
		runtimes.Key(trainJob(t, `{name: torch, kind: TrainingRuntime}`)))
}

func TestFromRuntimeTakesNothingElse(t *testing.T) {
	_, err := runtimes.FromRuntime(trainJob(t, `{name: torch}`), &corev1.ConfigMap{}, metav1.ObjectMeta{})
	require.ErrorIs(t, err, runtimes.ErrUnsupportedRuntime)
	assert.EqualError(t, err, "unsupported runtime: *v1.ConfigMap")
}

func TestSnapshotsHoldTheWholeRuntime(t *testing.T) {
	for kind, runtime := range map[string]client.Object{
		"TrainingRuntime":        trainertest.Parse[v1alpha1.TrainingRuntime](t, namespaced),
		"ClusterTrainingRuntime": trainertest.Parse[v1alpha1.ClusterTrainingRuntime](t, clusterWide),
	} {
		t.Run(kind, func(t *testing.T) {
			read := runtime.DeepCopyObject().(client.Object)
			read.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("")) // as a typed client returns it
			read.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
			text, err := runtimes.EncodeSnapshot(read)
			require.NoError(t, err)
			assert.NotContains(t, text, "managedFields")
			assert.Len(t, read.GetManagedFields(), 1, "the runtime itself stays as it is")

			got, err := runtimes.DecodeSnapshot(trainJob(t, `{name: torch, kind: `+kind+`}`), snapshot(text))
			require.NoError(t, err)
			assert.Equal(t, runtime, got)
		})
	}
}

func TestSnapshotsThatCannotBeUsed(t *testing.T) {
	const cure = ": delete it to take a new one"
	cases := map[string]struct {
		configMap *corev1.ConfigMap
		text      string
	}{
		"without the runtime": {
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "job-runtime-snapshot"}},
			`the runtime's snapshot, ConfigMap job-runtime-snapshot, has no key "runtime"` + cure,
		},
		"of another kind": {
			snapshot(namespaced),
			`the runtime's snapshot, ConfigMap job-runtime-snapshot, holds TrainingRuntime.trainer.kubeflow.org "torch" and not the TrainJob's runtime` + cure,
		},
		"of another name": {
			snapshot("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: jax}"),
			`the runtime's snapshot, ConfigMap job-runtime-snapshot, holds ClusterTrainingRuntime.trainer.kubeflow.org "jax" and not the TrainJob's runtime` + cure,
		},
		"that is no YAML": {
			snapshot("{"),
			`the runtime's snapshot, ConfigMap job-runtime-snapshot, cannot be read` + cure,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := runtimes.DecodeSnapshot(trainJob(t, `{name: torch}`), c.configMap)
			assert.ErrorContains(t, err, c.text)
		})
	}
}

func snapshot(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "job-runtime-snapshot"},
		Data:       map[string]string{runtimes.SnapshotKey: text},
	}
}
