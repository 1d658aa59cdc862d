package soak

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// measured is a value a minute for an hour.
func measured(f func(minute int) float64) Series {
	s := Series{Name: "memory", Unit: "MiB", Share: 0.05, Slack: 1}
	for m := range 61 {
		s.Add(time.Duration(m)*time.Minute, f(m))
	}
	return s
}

func TestFlat(t *testing.T) {
	// Each case has dice of its own: which is first is chance.
	thrown := func() func() float64 { return rand.New(rand.NewPCG(1, 2)).Float64 }
	noise, leak := thrown(), thrown()
	for name, test := range map[string]struct {
		value func(int) float64
		flat  bool
	}{
		"the same all the time":  {func(int) float64 { return 100 }, true},
		"it warms up, and stays": {func(m int) float64 { return float64(min(m, 25)) * 10 }, true},
		"noise":                  {func(int) float64 { return 100 + 10*noise() }, true},
		"single peaks": {func(m int) float64 {
			if m%9 == 0 {
				return 1000
			}
			return 100
		}, true},
		"it shrinks":                       {func(m int) float64 { return 100 - float64(m) }, true},
		"a slow leak":                      {func(m int) float64 { return 100 + 0.4*float64(m) }, false},
		"a slow leak under noise":          {func(m int) float64 { return 100 + 0.5*float64(m) + 10*leak() }, false},
		"a leak that begins in the middle": {func(m int) float64 { return 100 + float64(max(0, m-30)) }, false},
		"one that was nothing at first":    {func(m int) float64 { return float64(m) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := measured(test.value)
			assert.Equal(t, test.flat, s.Flat(), "it grows by %f", s.Growth())
		})
	}
	assert.False(t, Series{}.Flat(), "nothing was measured")
}

func TestALongRunHasABoundPerHour(t *testing.T) {
	leak := func(minute int) float64 { return 100 + 0.15*float64(minute) } // 9 an hour, 4.5 in the second half
	s := measured(leak)
	assert.True(t, s.Flat(), "by share and slack alone")
	s.PerHour = 6
	assert.False(t, s.Flat())
	s.PerHour = 10
	assert.True(t, s.Flat())
	s.PerHour, s.Points = 6, s.Points[:20]
	assert.True(t, s.Flat(), "a short run has none")
}

func TestSlope(t *testing.T) {
	s := measured(func(m int) float64 { return 100 + 2*float64(m) })
	assert.InDelta(t, 120, s.Slope(), 1e-6, "per hour")
	assert.InDelta(t, 60, s.Growth(), 1e-6, "in half an hour")
	assert.Zero(t, Series{Points: []Point{{0, 1}}}.Slope())
}

func TestTable(t *testing.T) {
	text := Table([]Series{measured(func(int) float64 { return 100 }), measured(func(m int) float64 { return float64(m) }), {Name: "nothing"}})
	assert.Contains(t, text, "flat")
	assert.Contains(t, text, "GROWS")
	assert.Contains(t, text, "never measured")
}
