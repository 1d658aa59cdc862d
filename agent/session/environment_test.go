package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOverrideLeavesOneEntryPerName(t *testing.T) {
	before := []string{"A=1", "AB=2"}
	assert.Equal(t, []string{"AB=2", "A=3"}, override(before, "A=2", "A=3"))
	assert.Equal(t, []string{"A=1", "AB=2"}, before, "it is somebody else's")
}
