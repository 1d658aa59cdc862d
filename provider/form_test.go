package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// grown is the scene's gang as its owner would have it: of so many workers.
func grown(workers int32, limit int) translate.Gang {
	js := translatetest.MakeJobSet("pi").Jobs("worker", 1000, workers/1000, translatetest.MakePod("p").Obj()).Obj()
	return translate.JobSetGang(js, 0, translate.Options{Selects: func(corev1.PodSpec) bool { return true }, Pods: limit})
}

func TestPodsOfAGangThatIsTooLargeAreRefused(t *testing.T) {
	const tooMany = 2 * translate.MostPods
	c := newScene(t)
	c.s.gang = grown(tooMany, 0)
	c.s.slots = c.s.gang.Slots
	accepted, fresh := c.worker(0), c.worker(1)
	fresh.pod.Finalizers = nil
	s := c.decide()
	for _, p := range []*podState{accepted, fresh} {
		require.NotNil(t, p.rejection)
		assert.Equal(t, wellknown.ReasonGangTooLarge, p.rejection.Reason)
		assert.Contains(t, p.rejection.Message, "200000 pods")
	}
	assert.False(t, s.mustSubmit())
}

func TestAGangThatGrowsTooLargeKeepsWhatRuns(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	running, fresh := c.worker(0), c.worker(2)
	c.started(running, 0)
	fresh.pod.Finalizers = nil
	c.s.gang = grown(2*translate.MostPods, 0)
	c.decide()
	assert.Nil(t, running.rejection)
	require.NotNil(t, fresh.rejection)
	assert.Equal(t, wellknown.ReasonGangTooLarge, fresh.rejection.Reason)
}

func TestAUsersLimitIsToldForAGangWithoutPlaces(t *testing.T) {
	const limit = 5
	c := newScene(t)
	c.s.identity = identity.Identity{Limits: identity.Limits{Pods: limit}}
	c.s.gang = grown(1000, limit)
	require.Empty(t, c.s.gang.Slots)
	c.s.slots = nil
	fresh := c.worker(0)
	fresh.pod.Finalizers = nil
	c.decide()
	require.NotNil(t, fresh.rejection)
	assert.Equal(t, wellknown.ReasonNotAllowed, fresh.rejection.Reason)
	assert.Contains(t, fresh.rejection.Message, "its gang has 1000 pods")
}

func TestWhatARefusedPodAsksForCountsForNobody(t *testing.T) {
	c := newScene(t)
	c.s.identity = identity.Identity{User: "ada"}
	stranger, good := c.worker(0), c.worker(1)
	stranger.identity, good.identity = identity.Identity{User: "bob"}, c.s.identity
	stranger.pod.Annotations = map[string]string{wellknown.AnnotationAccount: "bio"}
	good.pod.Annotations = map[string]string{wellknown.AnnotationAccount: "physics"}
	s := c.decide()
	require.NotNil(t, stranger.rejection)
	assert.Equal(t, wellknown.ReasonNoHPCUser, stranger.rejection.Reason)
	assert.Nil(t, good.rejection)
	assert.Equal(t, "physics", s.wishes.Account)
}
