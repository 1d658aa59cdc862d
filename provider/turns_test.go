package provider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
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
