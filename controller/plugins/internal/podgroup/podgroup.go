package podgroup

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Component is the PodGroup of all of a TrainJob's pods, initializers and
// launcher included. It has the TrainJob's name. Spec is what the scheduler's
// PodGroups have besides the members and their resources.
func Component(kind schema.GroupVersionKind, info *framework.Info, trainJob *v1alpha1.TrainJob, spec map[string]any) framework.Component {
	empty := func() *unstructured.Unstructured {
		group := &unstructured.Unstructured{}
		group.SetGroupVersionKind(kind)
		group.SetNamespace(trainJob.Namespace)
		group.SetName(trainJob.Name)
		return group
	}
	return framework.Component{
		Kind:   empty(),
		Policy: framework.UntilStarted,
		Object: func() (client.Object, error) {
			members, resources := totals(info.PodSets)
			all := map[string]any{"minMember": members, "minResources": resources}
			maps.Copy(all, spec)
			group := empty()
			group.SetOwnerReferences(framework.ChildMeta(trainJob, trainJob.Name).OwnerReferences)
			group.Object["spec"] = all
			return group, nil
		},
	}
}

// totals counts the pods and adds up what they request. As in Kubeflow Trainer,
// each replicated job counts as one Job.
func totals(podSets []framework.PodSet) (members int64, resources map[string]any) {
	sum := corev1.ResourceList{}
	for i := range podSets {
		p := &podSets[i]
		members += int64(p.Count)
		for name, quantity := range p.Requests {
			more := quantity.DeepCopy()
			more.Mul(int64(p.Count))
			total := sum[name]
			total.Add(more)
			sum[name] = total
		}
	}
	resources = make(map[string]any, len(sum))
	for name, quantity := range sum {
		resources[string(name)] = quantity.String()
	}
	return members, resources
}
