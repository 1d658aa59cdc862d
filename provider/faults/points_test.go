package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEachPointHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range append(OfNode(), OfAgent()...) {
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, p.String(), "point %d", p)
		assert.False(t, seen[p.String()], p)
		seen[p.String()] = true
	}
	assert.Len(t, seen, int(count))
}
