package preflight

import (
	"time"

	"github.com/gangline/gangline/agent/doctor"
)

const checkClock = "clock"

// How far clocks may differ. Tokens and certificates are valid from the second they are
// made, and munge refuses credentials that are 5 minutes off (munged(8), --ttl); times in
// pods' statuses are taken from two clocks.
const (
	clockWarn = 2 * time.Second
	clockFail = time.Minute
)

// judgeClock judges another clock against this machine's. What lies within the error of
// the measurement counts as nothing.
func judgeClock(where string, c doctor.Clock) Line {
	ahead := c.Ahead.Abs()
	least := max(ahead-c.Error, 0)
	side := "ahead of"
	if c.Ahead < 0 {
		side = "behind"
	}
	const cure = "keep the clocks of this machine, the HPC nodes and the control plane together (chrony or ntpd)"
	switch shown, within := ahead.Round(time.Millisecond), max(c.Error.Round(time.Millisecond), time.Millisecond); {
	case least > clockFail:
		return bad(where, checkClock, doctor.Fail, cure, "%s %s this machine's (give or take %s): tokens and certificates are not valid there", shown, side, within)
	case least > clockWarn:
		return bad(where, checkClock, doctor.Warn, cure, "%s %s this machine's (give or take %s)", shown, side, within)
	case ahead <= c.Error:
		return good(where, checkClock, doctor.OK, "as this machine's, give or take %s", within)
	default:
		return good(where, checkClock, doctor.OK, "%s %s this machine's (give or take %s)", shown, side, within)
	}
}

// noClock says that a clock could not be compared.
func noClock(where, why string) Line {
	return bad(where, checkClock, doctor.Warn, "mend what keeps it from being asked", "it could not be compared: %s", why)
}
