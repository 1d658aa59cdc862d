package provider

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/translate"
)

// leaderWorkerSets join the pods of one group of a LeaderWorkerSet.
type leaderWorkerSets struct{ *owners }

func lwsKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
}

// member goes by the labels: a worker's chain of owners is long (a StatefulSet,
// the leader, another StatefulSet, the set), and says the same.
func (o leaderWorkerSets) member(ctx context.Context, pod *corev1.Pod) (membership, bool, error) {
	group, role, ok := translate.LWSGroupOf(pod)
	if !ok {
		return membership{}, false, nil
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: group.Set}
	set := objectOf(lwsKind())
	found, err := o.find(ctx, name, set, exists)
	if err != nil || !found {
		return absent(lwsKind(), name), err == nil, err
	}
	return membership{key: group.Key(set.GetUID()), role: role, owner: name}, true, nil
}

func (o leaderWorkerSets) declare(ctx context.Context, s *state, rest string, owner types.NamespacedName, options translate.Options) error {
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) != 3 {
		return fmt.Errorf("the key has %d parts", len(parts))
	}
	index, err := strconv.Atoi(parts[1])
	if err != nil {
		return fmt.Errorf("reading the group's index: %w", err)
	}
	if owner.Name == "" {
		s.owner.gone = true
		return nil
	}
	set := objectOf(lwsKind())
	if gone, err := o.get(ctx, owner, set, types.UID(parts[0])); err != nil || gone {
		s.isAbsent(gone, lwsKind(), owner)
		return err
	}
	group := translate.LWSGroup{Set: owner.Name, Index: index, Revision: parts[2]}
	d, err := translate.LWSGang(set, group, s.candidates(), options)
	if err != nil {
		return err
	}
	s.takes(d)
	return nil
}

// exists will do with any object of the name.
func exists() bool { return true }
