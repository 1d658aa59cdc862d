package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// noWay is a site that nobody reaches. It notes as whom that was tried.
type noWay struct {
	Sites
	mu               sync.Mutex
	tried, forgotten []string
}

func (n *noWay) Forget(user string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forgotten = append(n.forgotten, user)
}

func (n *noWay) For(_ context.Context, user string) (site.Site, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tried = append(n.tried, user)
	return nil, errors.New("no way")
}

// mapsToAda is a node that has met ada, whom its map names for all pods, and reads bob's
// spool. A rule that fits no pod names carl.
func mapsToAda(ctx context.Context) (*Reconciler, *noWay) {
	way := &noWay{}
	ids := newIdentities(identity.Map{
		{Namespaces: []string{"nobody-s"}, Identity: identity.Identity{User: "carl"}},
		{Identity: identity.Identity{User: "ada"}},
	})
	return &Reconciler{
		registry: newRegistry(translate.Names{Cluster: "c", Node: "hpc"}), identities: ids,
		people: &people{sites: way, life: ctx, uids: &UIDs{}, read: func() {}, named: func() []string { return ids.get().Users() }, all: map[string]*acquaintance{
			"ada": {user: &hpcUser{name: "ada"}}, "bob": {user: &hpcUser{name: "bob"}, err: errBeingRead},
		}},
		keys:     keySource{secret: []byte(strings.Repeat("k", 32))},
		recorder: record.NewFakeRecorder(100),
	}, way
}

func TestAPodCannotChooseItsUser(t *testing.T) {
	here := translate.AllocationName(translate.Names{Cluster: "c", Node: "hpc"}, translate.Gang{Key: "k", OwnerName: "p"}, 1, "x")
	elsewhere := translate.AllocationName(translate.Names{Cluster: "c", Node: "other"}, translate.Gang{Key: "k", OwnerName: "p"}, 1, "x")
	seal := keySource{secret: []byte(strings.Repeat("k", 32))}.sealPod
	for sentence, tc := range map[string]struct {
		user, seal, allocation string
		tried, unmet           string // a user as whom something was tried, and one who is waited for
		ignored                bool
	}{
		"a name of the author's making":                  {user: "eve", ignored: true},
		"with a seal of the author's making":             {user: "eve", seal: strings.Repeat("0", 64), ignored: true},
		"with another pod's seal":                        {user: "eve", seal: seal("other-uid", "eve"), ignored: true},
		"with the seal for another user":                 {user: "eve", seal: seal("p-uid", "ada"), ignored: true},
		"what the node has written counts":               {user: "eve", seal: seal("p-uid", "eve"), tried: "eve", unmet: "eve"},
		"an older version wrote what the map still says": {user: "ada"},
		"… or a user who is known":                       {user: "bob", unmet: "bob"},
		"… or one whom some rule names":                  {user: "carl", tried: "carl", unmet: "carl"},
		"… or one of whom nothing but the place is left": {user: "eve", allocation: here, unmet: "eve"},
		"a place on another node is none":                {user: "eve", allocation: elsewhere, ignored: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, way := mapsToAda(t.Context())
				pod := translatetest.MakePod("p").Annotation(wellknown.AnnotationHPCUser, tc.user).
					Annotation(wellknown.AnnotationSeal, tc.seal).Annotation(wellknown.AnnotationAllocation, tc.allocation).Obj()
				pod.Finalizers = []string{wellknown.Finalizer}
				s := &state{pods: []*podState{{pod: pod}}, note: &note{}}
				for range 2 {
					err := r.identify(t.Context(), s)
					if tc.unmet == "" {
						require.NoError(t, err)
					} else {
						unmet := (*unmetError)(nil)
						require.ErrorAs(t, err, &unmet)
						assert.Contains(t, err.Error(), tc.unmet)
					}
				}
				synctest.Wait()
				assert.Equal(t, tc.tried, strings.Join(way.tried, ","))
				assert.Equal(t, "ada", s.user.name)
				events := r.recorder.(*record.FakeRecorder).Events
				if !tc.ignored {
					assert.Empty(t, events)
					return
				}
				require.Len(t, events, 1, "it is told once")
				assert.Contains(t, <-events, `Warning Ignored gangline.dev/hpc-user: "eve"`)
			})
		})
	}
}

// An annotation can be changed all the time: nothing may be kept of each value.
func TestInventedUsersTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, way := mapsToAda(t.Context())
		pod := translatetest.MakePod("p").Obj()
		pod.Finalizers = []string{wellknown.Finalizer}
		s := &state{pods: []*podState{{pod: pod}}, note: &note{}}
		for i := range 1000 {
			pod.Annotations = map[string]string{wellknown.AnnotationHPCUser: fmt.Sprint("eve", i)}
			assert.NoError(t, r.identify(t.Context(), s))
		}
		synctest.Wait()
		assert.Empty(t, way.tried)
		assert.Len(t, r.people.all, 2)
		assert.Len(t, r.recorder.(*record.FakeRecorder).Events, 1)
	})
}

// With a rule for "{namespace}" whoever makes namespaces makes users.
func TestAUserWhoCannotBeReadIsForgottenWhenNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, way := mapsToAda(t.Context())
		ask := func(name string) {
			_, err := r.people.user(name)
			require.Error(t, err)
		}
		ask("gone")
		ask("carl")
		for range 20 { // as a gang that waits does
			ask("waiting")
			time.Sleep(readAgainLongest)
		}
		synctest.Wait()
		assert.False(t, r.people.knows("gone"))
		assert.Equal(t, []string{"gone"}, way.forgotten, "nor is any gateway kept for it")
		assert.True(t, r.people.knows("waiting"))
		assert.True(t, r.people.knows("carl"), "a rule names this one")
		ask("gone")
		assert.True(t, r.people.knows("gone"), "it is tried again for who asks")
	})
}

func TestAGangKeepsItsUserThoughTheMapChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := mapsToAda(t.Context())
		pod := translatetest.MakePod("p").Obj()
		pod.Finalizers = []string{wellknown.Finalizer}
		p := &podState{pod: pod, slot: -1}
		s := &state{pods: []*podState{p}, note: &note{}}
		require.NoError(t, r.identify(t.Context(), s))
		annotate(pod, r.annotations(s, p))

		next, way := mapsToAda(t.Context()) // another process of the node, with another map
		delete(next.people.all, "ada")
		next.identities.set(identity.Map{{Identity: identity.Identity{User: "bob"}}})
		assert.Error(t, next.identify(t.Context(), &state{pods: []*podState{p}, note: &note{}}))
		synctest.Wait()
		assert.Equal(t, []string{"ada"}, way.tried)
	})
}

// A pod without the finalizer, new or over, has nothing on the HPC side.
func TestAUserIsLookedForOnAcceptedPodsOnly(t *testing.T) {
	r, way := mapsToAda(t.Context())
	pod := translatetest.MakePod("p").Annotation(wellknown.AnnotationHPCUser, "eve").Obj()
	pod.Status.Phase = corev1.PodFailed
	require.NoError(t, r.identify(t.Context(), &state{pods: []*podState{{pod: pod}}, note: &note{}}))
	assert.Empty(t, way.tried)
}
