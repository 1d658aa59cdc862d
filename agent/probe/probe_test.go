package probe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/probe"
)

var started = time.Unix(1000, 0)

// spec is a probe with the API server's defaults but for what is changed.
func spec(change func(*corev1.Probe)) corev1.Probe {
	p := corev1.Probe{TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3}
	change(&p)
	return p
}

const (
	good  = probe.Success
	bad   = probe.Failure
	warns = probe.Warning
	lost  = probe.Unknown
)

func TestVerdict(t *testing.T) {
	plain := func(*corev1.Probe) {}
	twice := func(p *corev1.Probe) { p.SuccessThreshold = 2 }
	for sentence, c := range map[string]struct {
		kind      probe.Kind
		change    func(*corev1.Probe)
		tries     []probe.Outcome
		succeeded bool
		failed    bool
		changes   []bool
		over      bool // no more tries
	}{
		"nothing is known before the first try":   {probe.Readiness, plain, nil, false, false, nil, false},
		"one success is enough":                   {probe.Readiness, plain, []probe.Outcome{good}, true, false, []bool{true}, false},
		"a warning is a success that differs":     {probe.Readiness, plain, []probe.Outcome{good, warns}, true, false, []bool{true, true}, false},
		"two failures do not make an unready one": {probe.Readiness, plain, []probe.Outcome{good, bad, bad}, true, false, []bool{true, true, false}, false},
		"three do": {probe.Readiness, plain, []probe.Outcome{good, bad, bad, bad}, false, true, []bool{true, true, false, false}, false},
		"a success between them starts the row anew":  {probe.Readiness, plain, []probe.Outcome{good, bad, bad, good, bad}, true, false, []bool{true, true, false, true, true}, false},
		"a readiness probe goes on after a failure":   {probe.Readiness, plain, []probe.Outcome{bad, bad, bad, good}, true, false, []bool{true, false, false, true}, false},
		"what could not be tried counts as nothing":   {probe.Readiness, plain, []probe.Outcome{good, bad, bad, lost, bad}, false, true, []bool{true, true, false, true, true}, false},
		"two successes where two are asked for":       {probe.Readiness, twice, []probe.Outcome{good, good}, true, false, []bool{true, false}, false},
		"one where two are asked for":                 {probe.Readiness, twice, []probe.Outcome{bad, good}, false, false, []bool{true, true}, false},
		"a liveness probe goes on after a success":    {probe.Liveness, plain, []probe.Outcome{good}, true, false, []bool{true}, false},
		"a liveness probe that fails is not repeated": {probe.Liveness, plain, []probe.Outcome{bad, bad, bad}, false, true, []bool{true, false, false}, true},
		"a startup probe that succeeds is over":       {probe.Startup, plain, []probe.Outcome{bad, good}, true, false, []bool{true, true}, true},
		"a startup probe that fails is over":          {probe.Startup, plain, []probe.Outcome{bad, bad, bad}, false, true, []bool{true, false, false}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := probe.New(c.kind, spec(c.change), started)
			var changes []bool
			for _, o := range c.tries {
				p.Begin(started)
				changes = append(changes, p.End(o, ""))
			}
			assert.Equal(t, c.succeeded, p.Succeeded())
			assert.Equal(t, c.failed, p.Failed())
			assert.Equal(t, c.changes, changes)
			_, more := p.Due()
			assert.Equal(t, c.over, !more)
		})
	}
}

func TestWhatIsSaidAnewIsAChange(t *testing.T) {
	p := probe.New(probe.Readiness, spec(func(*corev1.Probe) {}), started)
	for _, try := range []struct {
		message string
		changed bool
	}{{"connection refused", true}, {"connection refused", false}, {"statuscode: 404", true}} {
		p.Begin(started)
		assert.Equal(t, try.changed, p.End(bad, try.message), try.message)
	}
}

func TestTimes(t *testing.T) {
	due := func(p *probe.Probe) time.Duration {
		t.Helper()
		at, ok := p.Due()
		assert.True(t, ok)
		return at.Sub(started)
	}
	p := probe.New(probe.Readiness, spec(func(p *corev1.Probe) { p.InitialDelaySeconds = 3 }), started)
	assert.Equal(t, 3*time.Second, due(p), "the delay counts from the start")

	p.Begin(started.Add(3500 * time.Millisecond))
	_, ok := p.Due()
	assert.False(t, ok, "one try at a time")
	p.End(good, "")
	assert.Equal(t, 13*time.Second, due(p), "the period counts from when the try was due")

	p.Begin(started.Add(13 * time.Second))
	p.End(good, "") // after 12 s
	assert.Equal(t, 23*time.Second, due(p), "a try that was overtaken by the next one's time is followed at once")

	p.Begin(started.Add(time.Hour))
	p.End(good, "")
	assert.Equal(t, time.Hour+10*time.Second, due(p), "what was missed is not made up for, not even once")
}
