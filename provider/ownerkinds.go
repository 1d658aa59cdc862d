package provider

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/translate"
)

// ownerKind is one way in which pods are joined to a gang.
type ownerKind interface {
	// member tells a pod's place; ok is false for a pod that is not joined to
	// others in this way.
	member(ctx context.Context, pod *corev1.Pod) (m membership, ok bool, err error)
	// declare fills in s.gang and s.owner with what the owner of the gang s.key
	// wants; rest is the key without the kind's name. The owner's name is empty
	// where neither a pod nor an allocation is left to know it from.
	declare(ctx context.Context, s *state, rest string, owner types.NamespacedName, o translate.Options) error
}

// namedKind is a kind under the name by which its gangs' keys begin.
type namedKind struct {
	name  string
	owner ownerKind
}

// kinds are all kinds, in the order in which a pod is asked: what a user wrote,
// workloads, schedulers' groups. The pods of a JobSet may have a PodGroup too (a
// TrainJob with coscheduling does); the JobSet knows more.
func (o *owners) kinds() []namedKind {
	return []namedKind{
		{"named", namedGangs{}},
		{"jobset", jobSets{o}},
		{"mpijob", mpiJobs{o}},
		{"lws", leaderWorkerSets{o}},
		{"podgroup", podGroups{o}},
		{"absent", absentOwners{}},
		{"orphan", orphans{}},
		{"pod", singlePods{}},
	}
}

// declare fills in the gang as its owner declares it.
func (o *owners) declare(ctx context.Context, s *state, owner types.NamespacedName, options translate.Options) error {
	name, rest, _ := strings.Cut(s.key, "/")
	for _, k := range o.kinds() {
		if k.name == name {
			if err := k.owner.declare(ctx, s, rest, owner, options); err != nil {
				return fmt.Errorf("reading the owner of gang %s: %w", s.key, err)
			}
			return nil
		}
	}
	return fmt.Errorf("the gang's key %q is of no known kind: run a newer gangline-node", s.key)
}

// takes over what an owner declares.
func (s *state) takes(d translate.Declaration) {
	s.gang = d.Gang
	s.owner = ownerState{gone: d.Gone, suspended: d.Suspended, finished: d.Finished}
}

// candidates are the pods that a gang without a common template is made of: not
// those that have failed or go.
func (s *state) candidates() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range s.pods {
		if p.pod.Status.Phase != corev1.PodFailed && !p.deleting() && p.rejection == nil {
			pods = append(pods, p.pod)
		}
	}
	return pods
}

// anyUnfinished tells whether one of the pods has still something to do.
func anyUnfinished(pods []*corev1.Pod) bool {
	for _, p := range pods {
		if !terminal(p) {
			return true
		}
	}
	return false
}

// jobOf reads the Job that controls a pod; its name is empty for a pod of no Job.
func (o *owners) jobOf(ctx context.Context, pod *corev1.Pod) (job *metav1.PartialObjectMetadata, gone bool, err error) {
	job = jobMetadata()
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "Job" || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
		return job, false, nil
	}
	gone, err = o.get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}, job, ref.UID)
	return job, gone, err
}

// orphan is the place of a pod whose owner is gone: it belongs to a gang whose
// size nobody knows any more. It will be deleted; until then it waits.
func orphan(pod *corev1.Pod) membership {
	return membership{key: "orphan/" + string(pod.UID)}
}

type orphans struct{}

func (orphans) member(context.Context, *corev1.Pod) (membership, bool, error) {
	return membership{}, false, nil
}

func (orphans) declare(_ context.Context, s *state, _ string, _ types.NamespacedName, _ translate.Options) error {
	s.owner.gone = true
	return nil
}

// singlePods are their own gangs.
type singlePods struct{}

func (singlePods) member(_ context.Context, pod *corev1.Pod) (membership, bool, error) {
	return membership{key: translate.SinglePodKey(pod)}, true, nil
}

func (singlePods) declare(_ context.Context, s *state, _ string, _ types.NamespacedName, o translate.Options) error {
	if len(s.pods) == 0 {
		s.owner.gone = true
		return nil
	}
	s.gang = translate.SinglePodGang(s.pods[0].pod, o)
	return nil
}

// namedGangs are those that annotations make.
type namedGangs struct{}

func (namedGangs) member(_ context.Context, pod *corev1.Pod) (membership, bool, error) {
	key, ok := translate.NamedGangKey(pod)
	return membership{key: key}, ok, nil
}

func (namedGangs) declare(_ context.Context, s *state, _ string, _ types.NamespacedName, o translate.Options) error {
	size := 0
	for _, p := range s.pods {
		n, rejection := translate.GangSize(p.pod)
		if rejection != nil && !p.admitted() && !terminal(p.pod) && !p.deleting() {
			p.rejection = rejection
		}
		if p.pod.Status.Phase != corev1.PodFailed && !p.deleting() {
			size = max(size, n)
		}
	}
	pods := s.candidates()
	if !anyUnfinished(pods) {
		s.owner.gone = len(s.pods) == 0
		return nil
	}
	s.gang = translate.NamedGang(s.key, pods, size, o)
	return nil
}
