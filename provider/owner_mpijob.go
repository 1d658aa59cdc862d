package provider

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/translate"
)

// mpiJobs join the launcher and the workers of an MPIJob of the MPI operator.
type mpiJobs struct{ *owners }

func mpiJobKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "kubeflow.org", Version: "v2beta1", Kind: "MPIJob"}
}

// member knows a worker by its controller, and a launcher by that of its Job.
func (o mpiJobs) member(ctx context.Context, pod *corev1.Pod) (membership, bool, error) {
	job, gone, err := o.jobOf(ctx, pod)
	if err != nil || gone {
		return orphan(pod), gone, err
	}
	ref := metav1.GetControllerOf(pod)
	if job.Name != "" {
		ref = metav1.GetControllerOf(job)
	}
	kind := mpiJobKind()
	if ref == nil || ref.Kind != kind.Kind || ref.APIVersion != kind.GroupVersion().String() {
		return membership{}, false, nil
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}
	if gone, err := o.get(ctx, name, objectOf(kind), ref.UID); err != nil || gone {
		return orphan(pod), gone, err
	}
	role, ok := translate.MPIJobRole(pod)
	return membership{key: translate.MPIJobKey(ref.UID), role: role, owner: name}, ok, nil
}

func (o mpiJobs) declare(ctx context.Context, s *state, uid string, owner types.NamespacedName, options translate.Options) error {
	if owner.Name == "" {
		s.owner.gone = true
		return nil
	}
	job := objectOf(mpiJobKind())
	if gone, err := o.get(ctx, owner, job, types.UID(uid)); err != nil || gone {
		s.owner.gone = gone
		return err
	}
	d, err := translate.MPIJobGang(job, options)
	if err != nil {
		return err
	}
	s.takes(d)
	return nil
}

// objectOf is an empty object of a kind whose Go types are not known here.
func objectOf(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}
