package simulator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
)

func TestHarmComesToJobsAndIsWrittenDown(t *testing.T) {
	for harm, test := range map[Harm]struct {
		failures Failures
		outcome  wlm.Outcome
	}{
		HarmNode:      {Failures{Node: 1}, wlm.OutcomeNodeFailure},
		HarmAgents:    {Failures{Agents: 1}, wlm.OutcomeFailed},
		HarmPreempted: {Failures{Preempt: 1}, wlm.OutcomePreempted},
	} {
		t.Run(string(harm), func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Failures = test.failures })
			id, g := r.submit("pi", 2)
			r.eventually("the job ends", func() bool { return r.job(id).Phase == wlm.PhaseEnded })
			assert.Equal(t, test.outcome, r.job(id).Outcome)
			assert.Equal(t, []Harm{harm}, r.Accounts()[g.Allocation].Harms)
		})
	}
	r := newRig(t, func(o *Options) { o.Failures.Forget = 1 })
	id, _ := r.submit("pi", 1)
	r.eventually("the job is forgotten", func() bool { return r.job(id).ID == "" })
	assert.Equal(t, []Harm{HarmForgotten}, r.Accounts()["pi"].Harms)
	assert.Equal(t, 1, r.Stats().Running, "and goes on")
}

func TestAccountsTellOfJobsAndEnds(t *testing.T) {
	r := newRig(t, nil)
	_, g := r.submit("pi", 1)
	r.order(g, "exit", "4", "0.01")
	r.eventually("the pod ends", func() bool { return ended(r.status("pi", 0)) != nil })
	r.LoseAnswers(1)
	_, err := r.Submit(t.Context(), r.request("pi", 1))
	require.Error(t, err)
	a := r.Accounts()["pi"]
	assert.Len(t, a.Submitted, 2)
	assert.Equal(t, 1, a.Unanswered)
	assert.Empty(t, a.Harms)
	assert.Equal(t, map[string]int32{"pia": 4}, a.Ends)

	_, stopped := r.submit("stopped", 1)
	r.order(stopped, "forever")
	r.eventually("the pod runs", func() bool { return running(r.status("stopped", 0)) })
	r.release(stopped)
	r.eventually("the pod ends", func() bool { return ended(r.status("stopped", 0)) != nil })
	assert.Empty(t, r.Accounts()["stopped"].Ends, "a stop is not its own end")
}

func TestSubmissionsAreRefused(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Failures.Refuse = 1 })
	_, err := r.Submit(t.Context(), r.request("pi", 1))
	var refused *wlm.RejectedError
	require.ErrorAs(t, err, &refused)
	assert.Zero(t, r.Stats().Submitted)
}
