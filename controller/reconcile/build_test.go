package reconcile

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

const torchRuntime = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers: [{name: node, image: first}]
`

// keys is a plugin with an object that is made once and one that follows.
type keys struct{}

func (keys) Name() string { return "Keys" }

func (keys) Build(_ context.Context, _ *framework.Info, tj *v1alpha1.TrainJob) ([]framework.Component, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "train-keys", Namespace: tj.Namespace}}
	hosts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "train-hosts", Namespace: tj.Namespace}}
	return []framework.Component{
		{Kind: secret, Policy: framework.Once, Object: func() (client.Object, error) {
			return &corev1.Secret{ObjectMeta: framework.ChildMeta(tj, "train-keys"), StringData: map[string]string{"key": "k"}}, nil
		}},
		{Kind: hosts, Policy: framework.Always, Object: func() (client.Object, error) {
			return &corev1.ConfigMap{ObjectMeta: framework.ChildMeta(tj, "train-hosts"), Data: map[string]string{"hosts": "a"}}, nil
		}},
	}, nil
}

func TestANewTrainJobIsBuiltOnce(t *testing.T) {
	c := newCluster(t, newScene())
	assert.Equal(t, []string{
		"create ConfigMap train-runtime-snapshot", "create Secret train-keys",
		"apply ConfigMap train-hosts", "apply JobSet train",
	}, c.mustLook())
	require.NotNil(t, c.jobSet())
	assert.True(t, metav1.IsControlledBy(c.jobSet(), newScene().trainJob))
	assert.Empty(t, c.mustLook(), "nothing has changed, so nothing is written")
}

func TestARestartedControllerAppliesAtMostOnce(t *testing.T) {
	c := newCluster(t, newScene())
	c.mustLook()
	c.r.applier, c.r.snapshots = newApplier(c.client), newSnapshots(c.client, c.client)
	assert.Equal(t, []string{"apply ConfigMap train-hosts"}, c.mustLook(), "what runs is not touched")
	assert.Empty(t, c.mustLook())
}

func TestWhatIsDeletedIsMadeAgain(t *testing.T) {
	c := newCluster(t, newScene())
	c.mustLook()
	for object, want := range map[client.Object]string{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "train-keys", Namespace: "team"}}:     "create Secret train-keys",
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "train-hosts", Namespace: "team"}}: "apply ConfigMap train-hosts",
		&jobsetv1alpha2.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team"}}:  "apply JobSet train",
	} {
		require.NoError(t, c.client.Delete(t.Context(), object))
		assert.Equal(t, []string{want}, c.mustLook())
	}
}

// end completes the JobSet and deletes it, as ttlSecondsAfterFinished does, and
// returns it as its deletion shows it.
func (c *cluster) end() *jobsetv1alpha2.JobSet {
	c.t.Helper()
	js := c.jobSet()
	js.Status.Conditions = []metav1.Condition{{
		Type: string(jobsetv1alpha2.JobSetCompleted), Status: metav1.ConditionTrue, Reason: "AllJobsCompleted",
		LastTransitionTime: metav1.NewTime(now),
	}}
	require.NoError(c.t, c.client.Status().Update(c.t.Context(), js))
	require.NoError(c.t, c.client.Delete(c.t.Context(), js))
	return js
}

func TestWhatHasEndedAndIsGoneIsNotMadeAgain(t *testing.T) {
	c := newCluster(t, newScene())
	c.mustLook()
	before := &v1alpha1.TrainJob{}
	require.NoError(t, c.client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train"}, before))
	require.True(t, components(&c.r.endings).Delete(event.DeleteEvent{Object: c.end()}))

	assert.Equal(t, []string{"patch status TrainJob train"}, c.mustLook(), "the JobSet's end, which was not seen in time")
	after := &v1alpha1.TrainJob{}
	require.NoError(t, c.client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "train"}, after))
	assert.Equal(t, []string{"Complete=True AllJobsCompleted: "}, said(after.Status.Conditions))

	// A cache may still have the TrainJob as it was.
	after.Status = before.Status
	require.NoError(t, c.client.Status().Update(t.Context(), after))
	assert.Equal(t, []string{"patch status TrainJob train"}, c.mustLook())
	assert.Nil(t, c.jobSet())

	assert.Empty(t, c.mustLook())
	assert.Empty(t, c.r.endings.last, "known everywhere, so it is forgotten")
}

func TestWhichDeletedJobSetsAreRemembered(t *testing.T) {
	completed := metav1.Condition{Type: string(jobsetv1alpha2.JobSetCompleted), Status: metav1.ConditionTrue}
	cases := map[string]struct {
		jobSet func(*scene) *jobsetv1alpha2.JobSet
		want   int
	}{
		"one that has completed": {func(s *scene) *jobsetv1alpha2.JobSet { return s.withJobSet(completed) }, 1},
		"one that was running":   {func(s *scene) *jobsetv1alpha2.JobSet { return s.withJobSet() }, 0},
		"one of no TrainJob's": {func(s *scene) *jobsetv1alpha2.JobSet {
			js := s.withJobSet(completed)
			js.OwnerReferences = nil
			return js
		}, 0},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			var e endings
			e.note(tt.jobSet(newScene()))
			assert.Len(t, e.last, tt.want)
		})
	}
}

func TestARuntimesChangeReachesNewTrainJobsOnly(t *testing.T) {
	s := newScene()
	s.trainJob.Spec.Suspend = ptr.To(true)
	c := newCluster(t, s)
	c.mustLook()
	runtime := &v1alpha1.ClusterTrainingRuntime{}
	require.NoError(t, c.client.Get(t.Context(), client.ObjectKey{Name: "torch"}, runtime))
	runtime.Spec.Template.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Image = "second"
	require.NoError(t, c.client.Update(t.Context(), runtime))
	assert.Empty(t, c.mustLook())
	require.NoError(t, c.client.Delete(t.Context(), runtime))
	c.r.snapshots = newSnapshots(c.client, c.client)
	c.change(func(tj *v1alpha1.TrainJob) { tj.Spec.Suspend = ptr.To(false) })
	c.mustLook()
	assert.Equal(t, "first", image(c.jobSet()), "although the runtime is gone")
	assert.False(t, *c.jobSet().Spec.Suspend)
}

func TestSuspendAndResume(t *testing.T) {
	s := newScene()
	s.trainJob.Spec.Suspend = ptr.To(true)
	c := newCluster(t, s)
	assert.Contains(t, c.mustLook(), "patch status TrainJob train")
	require.True(t, *c.jobSet().Spec.Suspend, "the JobSet is there, and suspended")

	c.change(func(tj *v1alpha1.TrainJob) {
		tj.Spec.Suspend = ptr.To(false)
		tj.Spec.Trainer = &v1alpha1.Trainer{Image: ptr.To("mine")}
	})
	assert.Equal(t, []string{"apply JobSet train", "patch status TrainJob train"}, c.mustLook())
	assert.False(t, *c.jobSet().Spec.Suspend)
	assert.Equal(t, "mine", image(c.jobSet()), "a change made while suspended")

	c.change(func(tj *v1alpha1.TrainJob) { tj.Spec.Trainer.Image = ptr.To("other") })
	assert.Empty(t, c.mustLook(), "what runs is not touched")

	c.change(func(tj *v1alpha1.TrainJob) { tj.Spec.Suspend = ptr.To(true) })
	c.mustLook()
	assert.True(t, *c.jobSet().Spec.Suspend)
}

func TestASuspendedJobSetThatRefusesAChangeIsMadeAnew(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "jobsets"}, "train", fmt.Errorf("field is immutable"))
	suspended := func(t *testing.T) *cluster {
		s := newScene()
		s.trainJob.Spec.Suspend = ptr.To(true)
		c := newCluster(t, s)
		c.mustLook()
		c.change(func(tj *v1alpha1.TrainJob) { tj.Spec.Trainer = &v1alpha1.Trainer{Image: ptr.To("mine")} })
		c.refuse = func(verb string, kind schema.GroupVersionKind) error {
			if verb == "apply" && kind.Kind == "JobSet" && c.jobSet() != nil {
				return refusal
			}
			return nil
		}
		return c
	}
	t.Run("while nothing of it is active", func(t *testing.T) {
		c := suspended(t)
		assert.Equal(t, []string{"delete JobSet train"}, c.mustLook())
		assert.Equal(t, []string{"apply JobSet train"}, c.mustLook())
		assert.Equal(t, "mine", image(c.jobSet()))
	})
	t.Run("not while something of it is active", func(t *testing.T) {
		c := suspended(t)
		js := c.jobSet()
		js.Status.ReplicatedJobsStatus = []jobsetv1alpha2.ReplicatedJobStatus{{Name: "node", Active: 1}}
		require.NoError(t, c.client.Status().Update(t.Context(), js))
		_, _, err := c.look()
		require.ErrorContains(t, err, "writing JobSet train")
		assert.NotNil(t, c.jobSet())
		assert.Contains(t, <-c.events.Events, "Warning TrainJobResourcesCreationFailed TrainJob resources reconciliation failed: writing JobSet train")
	})
}

func TestASuspensionReachesAJobSetThatTakesNothingElse(t *testing.T) {
	cases := map[string]string{
		"the JobSet refuses the rest of the change": "JobSet",
		"another component cannot be written":       "ConfigMap",
	}
	for name, kind := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, newScene())
			c.mustLook()
			c.r.applier = newApplier(c.client) // so that everything is applied
			c.change(func(tj *v1alpha1.TrainJob) { tj.Spec.Suspend = ptr.To(true) })
			c.refuse = func(verb string, of schema.GroupVersionKind) error {
				if verb == "apply" && of.Kind == kind {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "train", fmt.Errorf("refused"))
				}
				return nil
			}
			writes, _, err := c.look()
			require.ErrorContains(t, err, "refused")
			assert.Contains(t, writes, "patch JobSet train")
			assert.True(t, *c.jobSet().Spec.Suspend)
			assert.Len(t, c.events.Events, 1)

			writes, _, _ = c.look()
			assert.NotContains(t, writes, "patch JobSet train", "once is enough")
		})
	}
}

func TestASnapshotOfAnEarlierTrainJobIsWaitedFor(t *testing.T) {
	c := newCluster(t, newScene())
	c.mustLook()
	require.NoError(t, c.client.Delete(t.Context(), c.jobSet()))
	old := &v1alpha1.TrainJob{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "team"}}
	require.NoError(t, c.client.Delete(t.Context(), old))
	again := newScene().trainJob
	again.UID = "2"
	again.Spec.RuntimeRef.Name = "another"
	require.NoError(t, c.client.Create(t.Context(), again))

	// The end of the first TrainJob has not been looked at, so its runtime is
	// still remembered.
	writes, result, err := c.look()
	require.NoError(t, err)
	assert.Empty(t, writes)
	assert.Equal(t, collectionWait, result.RequeueAfter)
}

func TestAJobSetOfTheSameName(t *testing.T) {
	t.Run("that is somebody else's is left alone, and the user is told", func(t *testing.T) {
		s := newScene()
		s.withJobSet().OwnerReferences = nil
		c := newCluster(t, s)
		writes, _, err := c.look()
		require.ErrorContains(t, err, "exists and is not this TrainJob's")
		assert.Empty(t, writes)
		assert.Contains(t, <-c.events.Events, "failed: JobSet train exists and is not this TrainJob's: delete it")
	})
	t.Run("that is somebody else's outlives the deadline", func(t *testing.T) {
		s := newScene()
		s.trainJob.Spec.ActiveDeadlineSeconds = 60
		s.withJobSet().OwnerReferences = nil
		c := newCluster(t, s)
		assert.Equal(t, []string{"patch status TrainJob train"}, c.mustLook())
		assert.NotNil(t, c.jobSet())
	})
	t.Run("that an earlier TrainJob has left is waited for", func(t *testing.T) {
		s := newScene()
		s.withJobSet().OwnerReferences[0].UID = "earlier"
		c := newCluster(t, s)
		writes, result, err := c.look()
		require.NoError(t, err)
		assert.Empty(t, writes)
		assert.Equal(t, collectionWait, result.RequeueAfter)
		assert.Empty(t, c.events.Events)
	})
}

func TestAnExpiredTrainJobLosesItsJobSet(t *testing.T) {
	s := newScene()
	s.trainJob.Spec.ActiveDeadlineSeconds = 3700
	c := newCluster(t, s)
	_, result, err := c.look()
	require.NoError(t, err)
	require.NotZero(t, result.RequeueAfter)
	c.clock.Step(result.RequeueAfter)
	assert.Equal(t, []string{"delete JobSet train", "patch status TrainJob train"}, c.mustLook())
	assert.Empty(t, c.mustLook(), "and does not get another")
}

func TestAnotherControllersTrainJobIsNotTouched(t *testing.T) {
	s := newScene()
	s.trainJob.Spec.ManagedBy = ptr.To(v1alpha1.ManagedByMultiKueue)
	s.trainJob.Spec.Suspend = ptr.To(true)
	assert.Empty(t, newCluster(t, s).mustLook())
}

func TestATrainJobThatIsBeingDeletedIsNotBuilt(t *testing.T) {
	s := newScene()
	s.trainJob.Finalizers = []string{"example.com/wait"}
	s.trainJob.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	assert.Empty(t, newCluster(t, s).mustLook())
}

func TestAMissingRuntimeIsToldAndTriedAgain(t *testing.T) {
	s := newScene()
	s.trainJob.Spec.RuntimeRef.Name = "absent"
	c := newCluster(t, s)
	writes, _, err := c.look()
	require.Error(t, err)
	assert.Empty(t, writes, "no condition: the runtime may yet come")
	assert.Contains(t, <-c.events.Events, `"absent" not found`)
}

// noBadImage is an API server that takes no pod with the image "bad".
type noBadImage struct{}

func (noBadImage) Problems(_ context.Context, _ string, spec *jobsetv1alpha2.JobSetSpec) []string {
	if spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Image == "bad" {
		return []string{"the pods of job node: bad image", "and more"}
	}
	return nil
}

func TestPodsThatCannotBeMadeAreToldOfOnce(t *testing.T) {
	s := newScene()
	s.trainJob.Spec.Trainer = &v1alpha1.Trainer{Image: ptr.To("bad")}
	c := newCluster(t, s)
	c.mustLook()
	require.NotNil(t, c.jobSet(), "JobSet takes it")
	assert.Contains(t, <-c.events.Events, "Warning InvalidPodTemplate It will not start: the pods of job node: bad image; and more")
	c.mustLook()
	assert.Empty(t, c.events.Events)
}
