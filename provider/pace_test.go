package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPaceOfLooks(t *testing.T) {
	const interval = 200 * time.Millisecond
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	quick := 3 * time.Millisecond
	for sentence, tc := range map[string]struct {
		before pace
		look   look
		after  time.Duration // from the look's begin, when the next is not due any more and when it is
		due    time.Duration
	}{
		"nothing new: an interval later":              {pace{allocations: 1}, look{took: quick, reports: 4}, 150 * time.Millisecond, 190 * time.Millisecond},
		"something new: at the next tick":             {pace{allocations: 1}, look{took: quick, reports: 4, news: true}, -time.Millisecond, 50 * time.Millisecond},
		"shortly after something new: likewise":       {pace{allocations: 1, livelyUntil: began.Add(time.Second)}, look{took: quick, reports: 4}, -time.Millisecond, 50 * time.Millisecond},
		"a slow look at very many: after a long rest": {pace{allocations: 1}, look{took: time.Second, reports: many + 1, news: true}, 4900 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			tc.look.began = began
			tc.before.looked(tc.look, interval)
			assert.False(t, tc.before.due(began.Add(tc.after), 1))
			assert.True(t, tc.before.due(began.Add(tc.due), 1))
		})
	}
}

func TestANewAllocationIsLookedAtSooner(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	p := &pace{}
	assert.True(t, p.due(now, 1))
	p.looked(look{began: now, reports: 4}, 200*time.Millisecond)
	assert.True(t, p.due(now.Add(50*time.Millisecond), 1))
	p.livelyUntil = time.Time{}
	p.looked(look{began: now, reports: 4}, 200*time.Millisecond)
	assert.False(t, p.due(now.Add(50*time.Millisecond), 1), "it is not new any more")
}
