package provider

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/translate"
)

// absentOwners join the pods that name the same object, which does not exist
// (yet): its UID and the gang's size are not known. They wait for it together.
type absentOwners struct{}

// absent is the place of such a pod.
func absent(kind schema.GroupVersionKind, name types.NamespacedName) membership {
	return membership{key: absentKey(kind, name)}
}

func absentKey(kind schema.GroupVersionKind, name types.NamespacedName) string {
	return fmt.Sprintf("absent/%s/%s/%s", kind.GroupKind(), name.Namespace, name.Name)
}

// absentText names the object for people.
func absentText(kind schema.GroupKind, name types.NamespacedName) string {
	return fmt.Sprintf("there is no %s %s (%s); create it, or make the pod without it", kind.Kind, name, kind.Group)
}

func (absentOwners) member(context.Context, *corev1.Pod) (membership, bool, error) {
	return membership{}, false, nil
}

func (absentOwners) declare(_ context.Context, s *state, rest string, _ types.NamespacedName, _ translate.Options) error {
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) != 3 {
		return fmt.Errorf("the key has %d parts", len(parts))
	}
	s.owner.gone = true
	s.owner.absent = absentText(schema.ParseGroupKind(parts[0]), types.NamespacedName{Namespace: parts[1], Name: parts[2]})
	return nil
}

// isAbsent notes an owner that pods name and that is gone.
func (s *state) isAbsent(gone bool, kind schema.GroupVersionKind, name types.NamespacedName) {
	if s.owner.gone = gone; gone {
		s.owner.absent = absentText(kind.GroupKind(), name)
	}
}

// absentAgain is how soon pods are asked again whose owner does not exist. Its
// creation is seen at once where its kind is watched already.
const absentAgain = 10 * time.Second

// absentAsked is how many pods are asked at a time of those that stay: whoever names what
// does not exist does not have the API server asked for each of thousands of pods.
const absentAsked = 16

// reassign finds the gangs anew of pods whose owner does not exist, or has given
// its name to another, as far as they never had a slot.
func (r *Reconciler) reassign(ctx context.Context, s *state) error {
	if s.owner.absent == "" {
		return nil
	}
	s.within(absentAgain)
	leaves := map[types.UID]bool{}
	stayed, first := 0, rand.IntN(len(s.pods)+1) //nolint:gosec // each has its turn in the end
	for _, p := range slices.Concat(s.pods[first:], s.pods[:first]) {
		if p.before != nil || terminal(p.pod) || stayed >= absentAsked {
			continue
		}
		m, err := r.owners.again(ctx, p.pod)
		if err != nil {
			return err
		}
		if m.key == s.key {
			stayed++
			continue
		}
		leaves[p.uid()] = true
		r.look(m.key)
	}
	s.pods = slices.DeleteFunc(slices.Clone(s.pods), func(p *podState) bool { return leaves[p.uid()] })
	return nil
}
