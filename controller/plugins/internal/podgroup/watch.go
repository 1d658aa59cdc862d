package podgroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Watches are the PodGroups, and what may change the resources of pods: limit
// ranges and runtime classes, as in Kubeflow Trainer. Only suspended TrainJobs
// are looked at again for these, since a group is not changed once its pods may
// run. The reader reads TrainJobs and runtimes. Only metadata is kept in memory.
func Watches(kind schema.GroupVersionKind, reader client.Reader) []framework.Watch {
	m := mapper{reader}
	return []framework.Watch{
		{Object: framework.MetadataOf(kind), Optional: true},
		{Object: framework.MetadataOf(corev1.SchemeGroupVersion.WithKind("LimitRange")), Map: m.ofLimitRange, Optional: true},
		{Object: framework.MetadataOf(nodev1.SchemeGroupVersion.WithKind("RuntimeClass")), Map: m.ofRuntimeClass, Optional: true},
	}
}

// mapper finds the TrainJobs that an object concerns.
type mapper struct {
	reader client.Reader
}

// ofLimitRange are the suspended TrainJobs of the namespace.
func (m mapper) ofLimitRange(ctx context.Context, limitRange client.Object) []reconcile.Request {
	return m.suspended(ctx, func(*v1alpha1.TrainJob) bool { return true }, client.InNamespace(limitRange.GetNamespace()))
}

// ofRuntimeClass are the suspended TrainJobs whose runtimes name the class.
func (m mapper) ofRuntimeClass(ctx context.Context, class client.Object) []reconcile.Request {
	runtimes, err := m.runtimesWith(ctx, class.GetName())
	if err != nil {
		log.FromContext(ctx).Error(err, "suspended TrainJobs are not looked at again", "runtimeClass", class.GetName())
		return nil
	}
	if len(runtimes) == 0 {
		return nil
	}
	return m.suspended(ctx, func(trainJob *v1alpha1.TrainJob) bool { return runtimes[runtimeOf(trainJob)] })
}

func (m mapper) suspended(ctx context.Context, concerned func(*v1alpha1.TrainJob) bool, in ...client.ListOption) []reconcile.Request {
	var trainJobs v1alpha1.TrainJobList
	if err := m.reader.List(ctx, &trainJobs, in...); err != nil {
		log.FromContext(ctx).Error(err, "suspended TrainJobs are not looked at again")
		return nil
	}
	var requests []reconcile.Request
	for i := range trainJobs.Items {
		trainJob := &trainJobs.Items[i]
		if ptr.Deref(trainJob.Spec.Suspend, false) && concerned(trainJob) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(trainJob)})
		}
	}
	return requests
}

// runtimeKey names a runtime; the namespace is empty for a cluster's.
type runtimeKey struct{ namespace, name string }

func runtimeOf(trainJob *v1alpha1.TrainJob) runtimeKey {
	ref := trainJob.Spec.RuntimeRef
	if ptr.Deref(ref.Kind, v1alpha1.ClusterTrainingRuntimeKind) == v1alpha1.TrainingRuntimeKind {
		return runtimeKey{trainJob.Namespace, ref.Name}
	}
	return runtimeKey{"", ref.Name}
}

// runtimesWith are the runtimes that name a class in a pod template.
func (m mapper) runtimesWith(ctx context.Context, class string) (map[runtimeKey]bool, error) {
	var namespaced v1alpha1.TrainingRuntimeList
	if err := m.reader.List(ctx, &namespaced); err != nil {
		return nil, fmt.Errorf("listing TrainingRuntimes: %w", err)
	}
	var clusters v1alpha1.ClusterTrainingRuntimeList
	if err := m.reader.List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("listing ClusterTrainingRuntimes: %w", err)
	}
	with := map[runtimeKey]bool{}
	for _, r := range namespaced.Items {
		if names(r.Spec.Template.Spec.ReplicatedJobs, class) {
			with[runtimeKey{r.Namespace, r.Name}] = true
		}
	}
	for _, r := range clusters.Items {
		if names(r.Spec.Template.Spec.ReplicatedJobs, class) {
			with[runtimeKey{"", r.Name}] = true
		}
	}
	return with, nil
}

func names(jobs []jobsetv1alpha2.ReplicatedJob, class string) bool {
	for i := range jobs {
		if ptr.Deref(jobs[i].Template.Spec.Template.Spec.RuntimeClassName, "") == class {
			return true
		}
	}
	return false
}
