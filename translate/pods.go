package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gangline/gangline/translate/wellknown"
)

// SinglePodKey is the key of a pod that is its own gang.
func SinglePodKey(pod *corev1.Pod) string { return "pod/" + string(pod.UID) }

// SinglePodGang is the gang of a pod that nothing joins to others.
func SinglePodGang(pod *corev1.Pod, o Options) Gang {
	resources := PodResources(pod.Spec, o.GPUResource, o.Devices)
	return Gang{
		Key:       SinglePodKey(pod),
		Namespace: pod.Namespace,
		Owner:     fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name),
		OwnerName: pod.Name,
		OwnerUID:  pod.UID,
		Slots:     []Slot{podSlot(pod, Role{}, resources, o)},
	}
}

// NamedGangKey returns the key of a pod that is annotated with a gang's name:
// namespace, name and the owner's UID, so that two owners' gangs of one name
// stay apart. It reports false for a pod without the annotation.
func NamedGangKey(pod *corev1.Pod) (string, bool) {
	name, ok := pod.Annotations[wellknown.AnnotationGangName]
	if !ok {
		return "", false
	}
	var owner string
	if ref := metav1.GetControllerOf(pod); ref != nil {
		owner = string(ref.UID)
	}
	return fmt.Sprintf("named/%s/%s/%s", pod.Namespace, name, owner), true
}

// GangSize reads a named gang's size, and checks its name.
func GangSize(pod *corev1.Pod) (int, *Rejection) {
	name := pod.Annotations[wellknown.AnnotationGangName]
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return 0, &Rejection{
			Reason: wellknown.ReasonBadAnnotation,
			Field:  "metadata.annotations",
			Message: fmt.Sprintf("%s is %q: %s",
				wellknown.AnnotationGangName, name, strings.Join(problems, "; ")),
		}
	}
	value := pod.Annotations[wellknown.AnnotationGangSize]
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > MostPods {
		return 0, &Rejection{
			Reason: wellknown.ReasonBadAnnotation,
			Field:  "metadata.annotations",
			Message: fmt.Sprintf("%s is %q: a pod with %s needs the number of pods of its gang there, from 1 to %d",
				wellknown.AnnotationGangSize, value, wellknown.AnnotationGangName, MostPods),
		}
	}
	return n, nil
}

// NamedGang is the gang of annotated pods. Slots of pods that do not exist yet
// stand last and carry no resources: such a gang is not complete, see
// Gang.Missing.
func NamedGang(key string, pods []*corev1.Pod, size int, o Options) Gang {
	first := pods[0]
	name := first.Annotations[wellknown.AnnotationGangName]
	g := Gang{
		Key:       key,
		Namespace: first.Namespace,
		Owner:     fmt.Sprintf("gang %s/%s", first.Namespace, name),
		OwnerName: name,
		Refills:   refilled(pods),
		Whole:     true,
	}
	g.fill(pods, size, o)
	if ref := metav1.GetControllerOf(first); ref != nil {
		g.OwnerUID = ref.UID
		g.Owner += fmt.Sprintf(" of %s %s", ref.Kind, ref.Name)
	}
	return g
}

// refilled tells whether a controller may replace pods.
func refilled(pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return metav1.GetControllerOf(p) != nil })
}

// fill makes the slots of pods without a common template, in the order of their
// completion index, then name, and empty ones up to the size.
func (g *Gang) fill(pods []*corev1.Pod, size int, o Options) {
	size = max(size, len(pods))
	if !g.count(o, int64(size), 1) {
		return
	}
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(completionIndex(a), completionIndex(b)), compareNames(a.Name, b.Name))
	})
	for i := range size {
		role := Role{Index: i}
		if i >= len(pods) {
			g.Slots = append(g.Slots, Slot{Role: role, First: true})
			continue
		}
		g.Slots = append(g.Slots, podSlot(pods[i], role, PodResources(pods[i].Spec, o.GPUResource, o.Devices), o))
	}
}

// compareNames orders names as people count: worker-2 before worker-10.
func compareNames(a, b string) int {
	stemA, a1 := cutOrdinal(a)
	stemB, b1 := cutOrdinal(b)
	return cmp.Or(strings.Compare(stemA, stemB), cmp.Compare(a1, b1), strings.Compare(a, b))
}

// cutOrdinal takes the number off a name's end; -1 where it has none.
func cutOrdinal(name string) (stem string, ordinal int) {
	stem = strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(stem):])
	if err != nil {
		return name, -1
	}
	return stem, n
}

// PodHosts are a pod's names, the shortest first.
func PodHosts(pod *corev1.Pod, clusterDomain string) []string {
	return hostNames(ShortHostname(pod), pod.Spec.Subdomain, pod.Namespace, clusterDomain)
}

func podSlot(pod *corev1.Pod, role Role, r Resources, o Options) Slot {
	return Slot{
		Role:      role,
		Hosts:     PodHosts(pod, o.ClusterDomain),
		Resources: r,
		First:     true,
		MPISlots:  mpiSlots(pod.Annotations, nil, r),
	}
}
