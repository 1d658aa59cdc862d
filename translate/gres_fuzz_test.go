package translate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Gres come from the workload manager's tools, and from the spool.
func FuzzGres(f *testing.F) {
	for _, text := range []string{
		"(null)", "gpu:h100:8(S:0-1),nic:2", "gpu:4(S:0,2)", "gpu:9223372036854775807,gpu:9223372036854775807", "gpu:9223372036854775807K",
		"gpu:-1", "gpu:2K", ":", "gpu:", ":8", "((,", "gpu:no_consume:4", "a:1,a:1", "gpu:h100", "gpu:8G,gpu:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		gres := ParseGres(text)
		assert.Equal(t, gres, ParseGres(string(gres)), "one form for all")
		assert.GreaterOrEqual(t, gres.Count("gpu"), 0)
		assert.LessOrEqual(t, len(gres.Counts()), strings.Count(text, ",")+1)
		for kind, count := range gres.Counts() {
			assert.Positive(t, count, kind)
		}
		assert.Empty(t, gres.Less(gres))
		assert.Equal(t, gres, Gres("").plusAll(gres))
	})
}

func (g Gres) plusAll(others Gres) Gres {
	for kind, n := range others.Counts() {
		g = g.Plus(kind, n)
	}
	return g
}
