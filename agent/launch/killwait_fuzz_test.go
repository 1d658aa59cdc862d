package launch

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// FuzzKillWait: what Slurm's configuration says is what agents get, less what they need, and
// no configuration gives a time that is none.
func FuzzKillWait(f *testing.F) {
	f.Add("Configuration data as of 2026-01-02T03:04:05\nKillOnBadExit           = 0\n", int64(30), "MpiDefault              = none\n")
	f.Add("KillWait = x sec\n", int64(0), "KillWait = 7 sec\n")
	f.Add("# KillWait = 9 sec\nUnkillableStepTimeout = 60 sec\n", int64(65533), "")
	f.Add("", int64(math.MaxInt64), "")
	f.Fuzz(func(t *testing.T, before string, seconds int64, after string) {
		if wait, said := killWaitOf([]byte(before)); said {
			assert.GreaterOrEqual(t, wait, minKillWait, "%q", before)
			return // the first one counts
		}
		wait, said := killWaitOf(fmt.Appendf(nil, "%s\nKillWait                = %d sec\n%s", before, seconds, after))
		if seconds < 0 {
			return // it may be told in what comes after
		}
		// More than Slurm has in 16 bits is no time.
		if seconds > math.MaxUint16 {
			assert.True(t, !said || wait >= minKillWait)
			return
		}
		assert.True(t, said)
		assert.Equal(t, max(time.Duration(seconds)*time.Second-killMargin, minKillWait), wait)
	})
}
