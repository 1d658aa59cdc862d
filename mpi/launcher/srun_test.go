package launcher

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStepsThatWouldHangAreRefused(t *testing.T) {
	at := func(component int, nodes ...string) (ranks []Rank) {
		for _, n := range nodes {
			ranks = append(ranks, Rank{Pod: Pod{Component: component, Node: n}})
		}
		return ranks
	}
	for name, tc := range map[string]struct {
		first, second []string
		pmi, says     string
	}{
		"one after the other":           {[]string{"n1", "n2"}, []string{"n3", "n10"}, "pmix", ""},
		"the other way round":           {[]string{"n3", "n4"}, []string{"n1"}, "pmix", "(n4 before n1)"},
		"one within the other":          {[]string{"n1", "n3"}, []string{"n2"}, "pmix_v4", "(n3 before n2)"},
		"the order of ranks is another": {[]string{"n2", "n1"}, []string{"n3"}, "pmix", ""},
		"numbers, not letters":          {[]string{"n9"}, []string{"n10"}, "pmix", ""},
		"by their stems first":          {[]string{"gpu2"}, []string{"cpu9"}, "pmix", "(gpu2 before cpu9)"},
		"PMI has no such fault":         {[]string{"n3"}, []string{"n1"}, "pmi2", ""},
		"one part alone":                {[]string{"n3", "n1"}, nil, "pmix", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Srun{}.Check(Step{PMI: tc.pmi, Ranks: append(at(0, tc.first...), at(1, tc.second...)...)})
			if tc.says == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.says)
		})
	}
}
