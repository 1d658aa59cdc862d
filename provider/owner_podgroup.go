package provider

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/translate"
)

// podGroups join the pods of a scheduler's PodGroup.
type podGroups struct{ *owners }

func (o podGroups) member(ctx context.Context, pod *corev1.Pod) (membership, bool, error) {
	for _, kind := range translate.PodGroupKinds() {
		name := types.NamespacedName{Namespace: pod.Namespace, Name: kind.Of(pod)}
		if name.Name == "" {
			continue
		}
		group := objectOf(kind.GVK)
		found, err := o.find(ctx, name, group, exists)
		if err != nil || !found {
			return absent(kind.GVK, name), err == nil, err
		}
		if _, gang := kind.Size(group); gang {
			return membership{key: kind.Key(group.GetUID()), owner: name}, true, nil
		}
	}
	return membership{}, false, nil
}

func (o podGroups) declare(ctx context.Context, s *state, rest string, owner types.NamespacedName, options translate.Options) error {
	which, uid, _ := strings.Cut(rest, "/")
	if owner.Name == "" {
		s.owner.gone = true
		return nil
	}
	for _, kind := range translate.PodGroupKinds() {
		if kind.Name != which {
			continue
		}
		group := objectOf(kind.GVK)
		if gone, err := o.get(ctx, owner, group, types.UID(uid)); err != nil || gone {
			s.isAbsent(gone, kind.GVK, owner)
			return err
		}
		d, err := kind.PodGroupGang(group, s.candidates(), options)
		if err != nil {
			return err
		}
		s.takes(d)
		return nil
	}
	return fmt.Errorf("there is no kind of PodGroup %q", which)
}
