package translate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/translate"
)

func TestANodeKnowsItsAllocationsByTheirNames(t *testing.T) {
	names := translate.Names{Cluster: "c", Node: "n"}
	gang := translate.Gang{Key: "k", OwnerName: "pi"}
	name := translate.AllocationName(names, gang, 3, "nonce")
	for sentence, tc := range map[string]struct {
		name string
		want bool
	}{
		"its own":                        {name, true},
		"another node's":                 {translate.AllocationName(translate.Names{Cluster: "c", Node: "m"}, gang, 3, "nonce"), false},
		"another cluster's":              {translate.AllocationName(translate.Names{Cluster: "d", Node: "n"}, gang, 3, "nonce"), false},
		"cluster and node are two words": {translate.AllocationName(translate.Names{Cluster: "cn"}, gang, 3, "nonce"), false},
		"a job of the user's":            {"train", false},
		"one that only holds the mark":   {"x-" + names.Mark() + "-1", false},
		"one that goes on":               {name + "-x", false},
		"none":                           {"", false},
	} {
		assert.Equal(t, tc.want, names.Own(tc.name), sentence)
	}
}
