package framework

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// ChildMeta is the metadata of an object that the TrainJob controls.
func ChildMeta(trainJob *v1alpha1.TrainJob, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: trainJob.Namespace,
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(trainJob, v1alpha1.GroupVersion.WithKind(v1alpha1.TrainJobKind)),
		},
	}
}
