package translate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

// PodGroupKind is one of the PodGroups that schedulers know.
type PodGroupKind struct {
	// Name is part of the gangs' keys.
	Name string
	GVK  schema.GroupVersionKind
	// Of returns the name of a pod's group, "" for none.
	Of func(pod *corev1.Pod) string
	// size is the field with the number of pods that must run together.
	size []string
}

// PodGroupKinds are all that are known, in the order in which a pod is asked.
func PodGroupKinds() []PodGroupKind {
	return []PodGroupKind{
		{
			Name: "kubernetes",
			GVK:  schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "PodGroup"},
			Of: func(pod *corev1.Pod) string {
				if g := pod.Spec.SchedulingGroup; g != nil {
					return ptr.Deref(g.PodGroupName, "")
				}
				return ""
			},
			size: []string{"spec", "schedulingPolicy", "gang", "minCount"},
		},
		{
			Name: "scheduler-plugins",
			GVK:  schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"},
			Of:   func(pod *corev1.Pod) string { return pod.Labels[wellknown.LabelPodGroup] },
			size: []string{"spec", "minMember"},
		},
		{
			Name: "volcano",
			GVK:  schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"},
			Of:   func(pod *corev1.Pod) string { return pod.Annotations[wellknown.AnnotationVolcanoGroup] },
			size: []string{"spec", "minMember"},
		},
	}
}

// Size is the number of pods that must run together. It reports false where the
// group asks for no gang: Kubernetes' own has such a policy.
func (k PodGroupKind) Size(group *unstructured.Unstructured) (int, bool) {
	n, found, err := unstructured.NestedInt64(group.Object, k.size...)
	return int(n), found && err == nil && n > 0
}

// Key is the key of a group's gang.
func (k PodGroupKind) Key(uid types.UID) string {
	return fmt.Sprintf("podgroup/%s/%s", k.Name, uid)
}

// PodGroupGang is the gang of a PodGroup: the pods that are there, in rank order,
// and places for those that are missing. A group says how many pods it needs at
// least; those that there are beyond that are part of it.
func (k PodGroupKind) PodGroupGang(group *unstructured.Unstructured, pods []*corev1.Pod, o Options) (Declaration, error) {
	meta, err := decode[struct {
		Metadata ownerMeta `json:"metadata"`
	}](group)
	if err != nil {
		return Declaration{}, err
	}
	m := meta.Metadata
	d := Declaration{Gang: m.gang(k.Key(m.UID), "PodGroup"), Gone: m.DeletionTimestamp != nil}
	size, _ := k.Size(group)
	d.Refills, d.Whole = refilled(pods), true
	d.fill(pods, size, o)
	return d, nil
}
