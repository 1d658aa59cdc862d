package simulator

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// chance draws from a seed. Each kind of draw has a sequence of its own, so that one more
// call of a kind changes nothing of the others.
type chance struct {
	seed uint64

	mu    sync.Mutex
	kinds map[string]*rand.Rand
}

func newChance(seed uint64) *chance { return &chance{seed: seed, kinds: map[string]*rand.Rand{}} }

func (c *chance) draw(kind string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.kinds[kind]
	if r == nil {
		h := fnv.New64a()
		_, _ = h.Write([]byte(kind))
		r = rand.New(rand.NewPCG(c.seed, h.Sum64())) //nolint:gosec // it has to be repeatable
		c.kinds[kind] = r
	}
	return r.Float64()
}

// happens draws whether something of a probability happens.
func (c *chance) happens(kind string, probability float64) bool {
	return probability > 0 && c.draw(kind) < probability
}

// spread draws a time between half of what is given and all of it.
func (c *chance) spread(kind string, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return most/2 + time.Duration(c.draw(kind)*float64(most/2))
}
