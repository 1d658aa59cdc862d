package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

func TestThePageIsOpenOnLoopbackOnly(t *testing.T) {
	for address, good := range map[string]bool{"": true, "127.0.0.1:10280": true, "0.0.0.0:10280": false, "10.1.2.3:10280": false} {
		c := Config{PageAddress: address}
		assert.Equal(t, good, c.validatePage() == nil, address)
	}
}

func TestThePageSeesTheNewestAllocation(t *testing.T) {
	r := newRegistry(translate.Names{})
	for generation := 1; generation <= 2; generation++ {
		r.add(&allocation{
			gang: spool.Gang{Key: "k", Allocation: "a" + string(rune('0'+generation)), Generation: generation},
			pods: map[types.UID]int{"p": generation},
		})
	}
	r.record(r.latest("k"), spool.Job{ID: "7"})
	seen := r.snapshot()
	require.Len(t, seen, 1)
	assert.Equal(t, "7", seen["k"].job.ID)
	assert.Equal(t, 2, seen["k"].slot("p"))
	assert.Equal(t, -1, seen["k"].slot("another"))
	r.bind(r.latest("k"), "another", 5)
	assert.Equal(t, -1, seen["k"].slot("another"), "what was seen does not change")
}
