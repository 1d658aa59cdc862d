package provider

import "time"

// pace is how often one user's reports are looked at: sooner while something goes on, for
// what has just changed changes again soon, and less often where there are very many.
type pace struct {
	next        time.Time // the earliest time of the next look
	livelyUntil time.Time
	allocations int // how many there were at the last one
}

// look is one look at all reports of a user.
type look struct {
	began   time.Time
	took    time.Duration
	reports int
	news    bool // there was something new in them
}

const (
	// lively is how long looks come sooner after something new, brisk how many of them
	// there are in an interval.
	lively = 2 * time.Second
	brisk  = 4
	// Where a user has more than many reports, nobody looks for restful times as long as a
	// look has taken: ten thousands would keep a processor busy otherwise, and a file
	// server.
	many    = 1000
	restful = 4
)

// due tells whether it is time to look. A new allocation may start at any moment.
func (p *pace) due(now time.Time, allocations int) bool {
	if allocations > p.allocations {
		p.livelyUntil = now.Add(lively)
	}
	p.allocations = allocations
	return !now.Before(p.next)
}

// looked says what a look was like.
func (p *pace) looked(l look, interval time.Duration) {
	ended := l.began.Add(l.took)
	if l.news {
		p.livelyUntil = ended.Add(lively)
	}
	switch {
	case l.reports > many:
		p.next = ended.Add(restful * l.took)
	case ended.Before(p.livelyUntil):
		p.next = l.began // at the next tick
	default:
		// A tick may come a little early or late, and the one that is meant must do.
		p.next = l.began.Add(interval - interval/brisk/2)
	}
}
