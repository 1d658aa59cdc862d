package provider

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// volcanoPod names a PodGroup of Volcano's.
func volcanoPod(name, group string) *corev1.Pod {
	return translatetest.MakePod(name).Annotation(wellknown.AnnotationVolcanoGroup, group).Obj()
}

// ownersOf are those of a cluster in which each read of an owner goes to get.
func ownersOf(c client.WithWatch, get func(name string) error) *owners {
	live := interceptor.NewClient(c, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
		return get(key.Name)
	}})
	return newOwners(live, live, func(types.UID) (string, bool) { return "", false }, func(schema.GroupVersionKind) (bool, error) { return true, nil })
}

func TestANameThatNothingCanHaveIsNotAskedFor(t *testing.T) {
	o := ownersOf(fake.NewFakeClient(), func(name string) error { return fmt.Errorf("invalid resource name %q", name) })
	for _, name := range []string{"team/a", "a%b", ".", ".."} {
		m, err := o.resolve(t.Context(), volcanoPod("p", name))
		require.NoError(t, err, name)
		assert.Contains(t, m.key, "absent/")
		o.forget("p-uid")
	}
}

func TestAPodWhoseOwnerCannotBeReadKeepsNobodyWaiting(t *testing.T) {
	stranger, other := volcanoPod("stranger", "broken"), translatetest.MakePod("other").Obj()
	c := fake.NewFakeClient(stranger, other)
	events := record.NewFakeRecorder(10)
	r := &Reconciler{client: c, recorder: events, owners: ownersOf(c, func(string) error { return errors.New("forbidden, say") })}
	require.NoError(t, r.recover(t.Context()))
	assert.True(t, r.recovered)
	_, known := r.owners.known(other.UID)
	assert.True(t, known, "all others go on")
	require.Error(t, r.assign(t.Context(), client.ObjectKeyFromObject(stranger)), "it is tried again")
	assert.Contains(t, <-events.Events, wellknown.ReasonOwnerUnreadable)
}

func TestAPodThatMayHaveAPlaceIsWaitedFor(t *testing.T) {
	accepted := volcanoPod("accepted", "broken")
	accepted.Finalizers = []string{wellknown.Finalizer}
	c := fake.NewFakeClient(accepted)
	r := &Reconciler{client: c, people: &people{}, owners: ownersOf(c, func(string) error { return errors.New("the API server is away") })}
	accepted.Annotations[wellknown.AnnotationSeal] = r.keys.sealPod(accepted.UID, "")
	require.NoError(t, c.Update(t.Context(), accepted))
	require.Error(t, r.recover(t.Context()))
	assert.False(t, r.recovered, "or its gang would look abandoned")
}

func TestASealCountsWhoeverTheNodeActsAs(t *testing.T) {
	pod := translatetest.MakePod("p").Annotation(wellknown.AnnotationHPCUser, "ada").Obj() // noted before, or copied
	for sentence, tc := range map[string]struct {
		only, seals string
		want        bool
	}{
		"as the pod's user":                       {"", "ada", true},
		"as one user, who is not noted":           {"hpc", "", true},
		"as one user, while it was noted another": {"hpc", "ada", true},
		"not as somebody else":                    {"", "", false},
		"nor where one user is all":               {"hpc", "bob", false},
	} {
		r := &Reconciler{people: &people{only: tc.only}}
		pod.Annotations[wellknown.AnnotationSeal] = r.keys.sealPod(pod.UID, tc.seals)
		assert.Equal(t, tc.want, r.sealed(pod), sentence)
	}
}

// Its gang would stop it as one that is gone, if it were in none.
func TestAPodWithAPlaceIsInItsGangWhetherOrNotItsOwnerCanBeRead(t *testing.T) {
	pod := volcanoPod("placed", "broken")
	r := loner(nil)
	r.registry.byPod[pod.UID] = &allocation{gang: spool.Gang{Key: "podgroup/x"}}
	r.owners = ownersOf(fake.NewFakeClient(pod), func(string) error { return errors.New("forbidden, say") })
	r.owners.placed = r.registry.gangOf
	require.NoError(t, r.regroup(t.Context(), []*corev1.Pod{pod, volcanoPod("elsewhere", "broken")}))
	m, known := r.owners.known(pod.UID)
	assert.True(t, known)
	assert.Equal(t, "podgroup/x", m.key)
}

func TestAFinalizerOfTheAuthorsMakingKeepsNobodyWaiting(t *testing.T) {
	for sentence, seal := range map[string]string{"without a seal": "", "with another's": keySource{}.sealPod("another-uid", "")} {
		forged := volcanoPod("forged", "broken")
		forged.Finalizers = []string{wellknown.Finalizer}
		forged.Annotations[wellknown.AnnotationSeal] = seal
		c := fake.NewFakeClient(forged)
		r := &Reconciler{client: c, people: &people{}, owners: ownersOf(c, func(string) error { return errors.New("forbidden, say") })}
		require.NoError(t, r.recover(t.Context()), sentence)
		assert.True(t, r.recovered, sentence)
	}
}

func TestWhoNamesWhatDoesNotExistIsAskedForAFewAtATime(t *testing.T) {
	asked := 0
	o := ownersOf(fake.NewFakeClient(), func(name string) error {
		asked++
		return apierrors.NewNotFound(schema.GroupResource{Resource: "podgroups"}, name)
	})
	volcano := schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"}
	s := &state{key: absentKey(volcano, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "no"})}
	s.owner.absent = "there is none"
	for i := range 100 {
		s.pods = append(s.pods, &podState{pod: volcanoPod(fmt.Sprint("p", i), "no")})
	}
	require.NoError(t, (&Reconciler{owners: o}).reassign(t.Context(), s))
	assert.Len(t, s.pods, 100)
	assert.Equal(t, 2*absentAsked, asked, "each by the cache and by the API server")
	for _, p := range s.pods[:50] { // its author has corrected it
		p.pod.Annotations = nil
	}
	for range 200 {
		require.NoError(t, (&Reconciler{owners: o}).reassign(t.Context(), s))
	}
	assert.Len(t, s.pods, 50, "each has its turn")
}
