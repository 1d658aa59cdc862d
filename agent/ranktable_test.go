package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// A slot outlives its pods, and must not keep what it knew of each one's steps.
func TestThePodsEndForgetsItsSteps(t *testing.T) {
	table := rankTable{ended: map[string]ends{"7.1": {ranks: 2, exit: 3}}}
	table.signal("7.1", unix.SIGTERM)
	assert.Equal(t, ends{2, 3}, table.endsOf("7.1"))
	assert.Len(t, table.told, 1)
	table.forget()
	assert.Equal(t, ends{}, table.endsOf("7.1"))
	assert.Empty(t, table.told)
}
