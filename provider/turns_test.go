package provider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/wlm"
)

// A user whose site answers nothing keeps the others' gangs from no worker.
func TestAUserHasSomeOfTheWorkersOnly(t *testing.T) {
	var turns turns
	for n := range workersPerUser {
		assert.True(t, turns.take("mallory", fmt.Sprint(n)))
	}
	for _, gang := range []string{"a", "b", "a"} {
		assert.False(t, turns.take("mallory", gang), "the user's gangs wait")
	}
	assert.True(t, turns.take("ada", "c"), "others' do not")
	_, waits := turns.done("ada")
	assert.False(t, waits)

	next, waits := turns.done("mallory")
	assert.True(t, waits)
	assert.Equal(t, "a", next, "who came first is first, and once")
	assert.True(t, turns.take("mallory", next))
	next, _ = turns.done("mallory")
	assert.Equal(t, "b", next)
	for range workersPerUser - 1 {
		_, waits = turns.done("mallory")
		assert.False(t, waits)
	}
	assert.Empty(t, turns.users, "nothing is left of who has no work")
}

// The gang that is named as the next may be over, take no turn and name nobody.
func TestWhoWaitsForATurnIsLookedAtInAnyCase(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseRunning)
	u := ownerOf(a)
	r := &Reconciler{
		registry: newRegistry(c.names()), owners: newOwners(nil, nil, nil, nil), identities: newIdentities(identity.Map{}),
		people: &people{all: map[string]*acquaintance{u.name: {user: u}}}, jobs: &jobTable{},
		hpc: func() hpcView { return hpcView{} }, recovered: true,
	}
	r.registry.add(a)
	for n := range workersPerUser {
		require.True(t, r.turns.take(u.name, fmt.Sprint(n)))
	}
	result, err := r.Reconcile(t.Context(), Request{Gang: a.gang.Key})
	require.NoError(t, err)
	assert.Equal(t, turnAgain, result.RequeueAfter)
	next, _ := r.turns.done(u.name)
	assert.Equal(t, a.gang.Key, next, "it waits for its turn all the same")
}
