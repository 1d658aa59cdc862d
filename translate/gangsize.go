package translate

import (
	"fmt"
	"math"

	"github.com/gangline/gangline/translate/wellknown"
)

// MostPods bounds a gang of any kind. Owners may ask for milliards of pods in two
// numbers, and each place takes memory before any of the pods exists.
const MostPods = 100_000

// most is how many places a gang may have.
func (o Options) most() int64 {
	if o.Pods > 0 {
		return min(int64(o.Pods), MostPods)
	}
	return MostPods
}

// count adds n times each pods to the gang's size, and reports whether it may still be as
// large: if not, it gets no places.
func (g *Gang) count(o Options, n, each int64) bool {
	n, each = max(n, 0), max(each, 0)
	if each > 0 && n > (math.MaxInt64-g.declared)/each {
		g.declared = math.MaxInt64
	} else {
		g.declared += n * each
	}
	return g.declared <= o.most()
}

// Size is how many pods the owner declares. They are as many as the places, unless they
// are too many: then there are no places.
func (g Gang) Size() int64 { return max(g.declared, int64(len(g.Slots))) }

// TooLarge refuses the pods of a gang that is larger than any may be.
func (g Gang) TooLarge() *Rejection {
	if g.Size() <= MostPods {
		return nil
	}
	return &Rejection{
		Reason: wellknown.ReasonGangTooLarge,
		Field:  "spec",
		Message: fmt.Sprintf("its gang, %s, has %d pods, and a gang may have %d: make it of fewer pods, or make several of it",
			g.Owner, g.Size(), MostPods),
	}
}
