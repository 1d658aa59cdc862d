package reconcile

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/plugins/jobset"
	"github.com/gangline/gangline/controller/trainertest"
)

// cluster is an API server in memory that counts writes and may refuse some.
type cluster struct {
	t      *testing.T
	client client.WithWatch
	r      *Reconciler
	events *events.FakeRecorder
	clock  *clocktesting.FakeClock
	writes []string
	refuse func(verb string, kind schema.GroupVersionKind) error
}

func newCluster(t *testing.T, s *scene) *cluster {
	scheme := runtime.NewScheme()
	require.NoError(t, clientscheme.AddToScheme(scheme))
	require.NoError(t, jobsetv1alpha2.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	c := &cluster{t: t, events: events.NewFakeRecorder(10), clock: clocktesting.NewFakeClock(now)}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
		trainertest.Parse[v1alpha1.ClusterTrainingRuntime](t, torchRuntime),
		s.trainJob,
	}
	if s.jobSet != nil {
		objects = append(objects, s.jobSet)
	}
	c.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.TrainJob{}, &jobsetv1alpha2.JobSet{}).
		WithInterceptorFuncs(c.count()).Build()
	c.r = &Reconciler{
		client: c.client, pipeline: pipeline.New(keys{}, jobset.New(c.client)),
		snapshots: newSnapshots(c.client, c.client), applier: newApplier(c.client),
		events: c.events, clock: c.clock, pods: noBadImage{},
	}
	return c
}

func (c *cluster) note(verb string, kind schema.GroupVersionKind, name string) error {
	if c.refuse != nil {
		if err := c.refuse(verb, kind); err != nil {
			return err
		}
	}
	c.writes = append(c.writes, fmt.Sprintf("%s %s %s", verb, kind.Kind, name))
	return nil
}

func (c *cluster) count() interceptor.Funcs {
	kind := func(o client.Object) schema.GroupVersionKind {
		k, _ := c.client.GroupVersionKindFor(o)
		return k
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := c.note("create", kind(o), o.GetName()); err != nil {
				return err
			}
			return w.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := c.note("delete", kind(o), o.GetName()); err != nil {
				return err
			}
			return w.Delete(ctx, o, opts...)
		},
		Apply: func(ctx context.Context, w client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			named := o.(interface {
				GetName() string
				GetObjectKind() schema.ObjectKind
			})
			if err := c.note("apply", named.GetObjectKind().GroupVersionKind(), named.GetName()); err != nil {
				return err
			}
			return w.Apply(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := c.note("patch", kind(o), o.GetName()); err != nil {
				return err
			}
			return w.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := c.note("patch "+sub, kind(o), o.GetName()); err != nil {
				return err
			}
			return w.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

// look reconciles once and returns what was written.
func (c *cluster) look() ([]string, ctrl.Result, error) {
	c.writes = nil
	result, err := c.r.Reconcile(c.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "train"}})
	return c.writes, result, err
}

func (c *cluster) mustLook() []string {
	c.t.Helper()
	writes, _, err := c.look()
	require.NoError(c.t, err)
	return writes
}

func (c *cluster) jobSet() *jobsetv1alpha2.JobSet {
	js := &jobsetv1alpha2.JobSet{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "team", Name: "train"}, js); apierrors.IsNotFound(err) {
		return nil
	}
	return js
}

func (c *cluster) change(change func(*v1alpha1.TrainJob)) {
	c.t.Helper()
	tj := &v1alpha1.TrainJob{}
	require.NoError(c.t, c.client.Get(c.t.Context(), client.ObjectKey{Namespace: "team", Name: "train"}, tj))
	change(tj)
	require.NoError(c.t, c.client.Update(c.t.Context(), tj))
}

func image(js *jobsetv1alpha2.JobSet) string {
	return js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Image
}
