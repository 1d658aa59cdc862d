package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/test/simulator"
)

// healthy is a storm after which all is as it must be: a pod that ended by itself, and one
// that a failed node ended.
func healthy() *verdict {
	b := batch{name: "storm", pods: 2, ends: true, seed: 1}
	_, code := program(b.seed, 0)
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	at := time.Unix(100, 0)
	return &verdict{
		batch: b,
		seen: map[string]seenPod{
			"storm-0": {uid: "u0", allocation: "a0", phase: phase, code: code},
			"storm-1": {uid: "u1", allocation: "a1", phase: corev1.PodFailed, code: 137, reason: "NodeFailure"},
		},
		accounts: map[string]simulator.Account{
			"a0": {Submitted: []time.Time{at}, Ends: map[string]int32{"u0": code}},
			"a1": {Submitted: []time.Time{at}, Harms: []simulator.Harm{simulator.HarmNode}},
		},
	}
}

func TestTheJudgeFindsEachFault(t *testing.T) {
	v := healthy()
	v.judge(true)
	require.Empty(t, v.violations)
	assert.Equal(t, 1, v.own)
	assert.Equal(t, map[string]int{"NodeFailure": 1}, v.harmed)

	pod := func(v *verdict, name string, change func(*seenPod)) {
		p := v.seen[name]
		change(&p)
		v.seen[name] = p
	}
	account := func(v *verdict, name string, change func(*simulator.Account)) {
		a := v.accounts[name]
		change(&a)
		v.accounts[name] = a
	}
	for name, test := range map[string]struct {
		fault func(*verdict)
		want  string
	}{
		"a pod that never ended":      {func(v *verdict) { pod(v, "storm-0", func(p *seenPod) { p.phase = corev1.PodRunning }) }, "it has not ended but is Running"},
		"a pod that is gone":          {func(v *verdict) { delete(v.seen, "storm-1") }, "it is gone"},
		"an end that was taken back":  {func(v *verdict) { pod(v, "storm-0", func(p *seenPod) { p.broken = "it became Running" }) }, "it became Running"},
		"another exit code":           {func(v *verdict) { pod(v, "storm-0", func(p *seenPod) { p.phase, p.code = corev1.PodFailed, 77 }) }, "its program has ended with"},
		"an end that nobody saw":      {func(v *verdict) { account(v, "a0", func(a *simulator.Account) { a.Ends = nil }) }, "its program has not ended so"},
		"a failure that is no harm's": {func(v *verdict) { account(v, "a1", func(a *simulator.Account) { a.Harms = nil }) }, "no harm came to it"},
		"a harm after the end":        {func(v *verdict) { account(v, "a1", func(a *simulator.Account) { a.Ends = map[string]int32{"u1": 0} }) }, "its program has ended with 0"},
		"a harm without a reason":     {func(v *verdict) { pod(v, "storm-1", func(p *seenPod) { p.reason = "" }) }, "without a reason"},
		"a pod that ran twice":        {func(v *verdict) { v.stats.Twice = []string{"u0"} }, "pod u0 was run twice"},
		"a job too many": {func(v *verdict) {
			account(v, "a0", func(a *simulator.Account) { a.Submitted = append(a.Submitted, time.Unix(200, 0)) })
		}, "allocation a0 has 2 jobs"},
		"a job too many and an old kill": {func(v *verdict) {
			v.kills = []time.Time{time.Unix(50, 0)}
			account(v, "a0", func(a *simulator.Account) { a.Submitted = append(a.Submitted, time.Unix(200, 0)) })
		}, "allocation a0 has 2 jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			v := healthy()
			test.fault(v)
			v.judge(false)
			require.NotEmpty(t, v.violations)
			assert.Contains(t, v.violations[0], test.want)
		})
	}
}

func TestASecondJobIsExcused(t *testing.T) {
	for name, excuse := range map[string]func(*verdict, *simulator.Account){
		"by an answer that was lost": func(_ *verdict, a *simulator.Account) { a.Unanswered = 1 },
		"by a kill between the two":  func(v *verdict, _ *simulator.Account) { v.kills = []time.Time{time.Unix(150, 0)} },
		"by a kill during the answer": func(v *verdict, _ *simulator.Account) {
			v.kills = []time.Time{time.Unix(100, 0).Add(-50 * time.Millisecond)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := healthy()
			a := v.accounts["a0"]
			a.Submitted = append(a.Submitted, time.Unix(200, 0))
			excuse(v, &a)
			v.accounts["a0"] = a
			v.judge(true)
			assert.Empty(t, v.violations)
			assert.Equal(t, 1, v.twins)
		})
	}
}

func TestAStormThatHarmsNothingShowsNothing(t *testing.T) {
	v := healthy()
	v.accounts["a1"] = simulator.Account{Ends: map[string]int32{}}
	_, code := program(1, 1)
	phase := map[bool]corev1.PodPhase{true: corev1.PodSucceeded, false: corev1.PodFailed}[code == 0]
	v.seen["storm-1"] = seenPod{uid: "u1", allocation: "a1", phase: phase, code: code}
	v.accounts["a1"].Ends["u1"] = code
	v.judge(true)
	require.Len(t, v.violations, 1)
	assert.Contains(t, v.violations[0], "nothing is shown")
}

func TestAPodsSights(t *testing.T) {
	running, ended := seenPod{phase: corev1.PodRunning, code: -1}, seenPod{phase: corev1.PodFailed, code: 3}
	assert.Empty(t, ended.after(running).broken)
	assert.Empty(t, ended.after(ended).broken)
	assert.NotEmpty(t, running.after(ended).broken)
	assert.NotEmpty(t, seenPod{phase: corev1.PodFailed, code: 4}.after(ended).broken)
	assert.NotEmpty(t, seenPod{phase: corev1.PodPending, code: -1}.after(running).broken)
	assert.NotEmpty(t, ended.after(seenPod{broken: "it was wrong before"}).broken, "it stays wrong")
}

func TestThePlanIsTheSeeds(t *testing.T) {
	s := settings{pods: 200, seed: 7, failures: 0.25, kills: 3}
	assert.Equal(t, plan(s), plan(s))
	assert.Len(t, plan(s), 3+6)
	other := s
	other.seed = 8
	assert.NotEqual(t, plan(s), plan(other))
	for _, d := range plan(s) {
		assert.LessOrEqual(t, d.after, 180)
	}
}

func TestTheRestartIsHeldToNamesAndCodes(t *testing.T) {
	all := map[string]seenPod{"a": {phase: corev1.PodFailed, code: endCode}, "b": {phase: corev1.PodRunning, code: -1}}
	ended := map[string]seenPod{"a": {}}
	require.NoError(t, truthful(all, ended, 2))
	require.ErrorContains(t, truthful(all, nil, 2), "a is Failed (3), not Running (-1)")
	require.ErrorContains(t, truthful(all, map[string]seenPod{"b": {}}, 2), "b is Running (-1), not Failed (3)")
	require.ErrorContains(t, truthful(all, ended, 3), "2 of 3 pods are there")
	all["a"] = seenPod{phase: corev1.PodFailed, code: 137}
	require.ErrorContains(t, truthful(all, ended, 2), "a is Failed (137)")
}
