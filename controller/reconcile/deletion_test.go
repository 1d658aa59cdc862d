package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

func TestWhenDeletionsAreLookedAt(t *testing.T) {
	owned := metav1.ObjectMeta{Namespace: "team", Name: "x", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.TrainJobKind, Name: "tj", Controller: ptr.To(true),
	}}}
	cases := map[string]struct {
		objects           []client.Object
		atOnce, inAMoment int
	}{
		"a JobSet":            {objects: []client.Object{&jobsetv1alpha2.JobSet{ObjectMeta: owned}}, atOnce: 1, inAMoment: 1},
		"a ConfigMap":         {objects: []client.Object{&corev1.ConfigMap{ObjectMeta: owned}}, inAMoment: 1},
		"metadata, several":   {objects: []client.Object{&metav1.PartialObjectMetadata{ObjectMeta: owned}, &corev1.Secret{ObjectMeta: owned}}, inAMoment: 1},
		"another's ConfigMap": {objects: []client.Object{&corev1.ConfigMap{}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
				defer queue.ShutDown()
				for _, object := range c.objects {
					deleted(t).Delete(t.Context(), event.DeleteEvent{Object: object}, queue)
				}
				synctest.Wait()
				assert.Equal(t, c.atOnce, queue.Len())
				time.Sleep(deletionWait)
				synctest.Wait()
				assert.Equal(t, c.inAMoment, queue.Len())
			})
		})
	}
}

func deleted(t *testing.T) handler.EventHandler {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind(v1alpha1.TrainJobKind), meta.RESTScopeNamespace)
	return unhurried{handler.EnqueueRequestForOwner(scheme, mapper, &v1alpha1.TrainJob{}, handler.OnlyControllerOwner())}
}
