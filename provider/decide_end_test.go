package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestTheEndOfAnAllocation(t *testing.T) {
	cases := map[string]struct {
		change func(c *scene)
		want   string // the outcome; "" for none
	}{
		"a running job":                       {func(*scene) {}, ""},
		"a state that nobody knows":           {func(c *scene) { c.s.job.Phase = wlm.PhaseUnknown }, ""},
		"a listing older than the submission": {func(c *scene) { c.s.job, c.s.listed = nil, c.s.alloc.job.Submitted.Add(-time.Second) }, ""},
		"one listing without the job":         {func(c *scene) { c.s.job = nil }, ""},
		"a node failure": {func(c *scene) {
			c.s.job.Phase, c.s.job.Outcome = wlm.PhaseEnded, wlm.OutcomeNodeFailure
		}, "NodeFailure"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newScene(t)
			c.allocated(wlm.PhaseRunning)
			p := c.worker(0)
			c.started(p, 0)
			tc.change(c)
			c.decide()
			assert.Nil(t, c.s.ending, "the agents' last words may still be on their way")
			s := c.after(settle)
			if tc.want == "" {
				assert.Nil(t, s.ending)
				assert.False(t, p.over)
				return
			}
			require.NotNil(t, s.ending)
			assert.Equal(t, tc.want, s.ending.Outcome)
			assert.True(t, p.over)
			assert.Equal(t, wellknown.ReasonNodeFailure, p.ending.Reason)
		})
	}
}

func TestAnInterruptedPodWaitsForTheWorkloadManagersWord(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	p := c.worker(0)
	c.finished(p, 0, 143)
	c.s.reports[0].Pod.Interrupted = true
	c.decide()
	assert.False(t, p.over, "the job still runs as far as anybody knows")
	c.s.job.Phase, c.s.job.Outcome = wlm.PhaseEnded, wlm.OutcomeTimeout
	c.decide()
	c.after(settle)
	assert.True(t, p.over)
	assert.Equal(t, wellknown.ReasonDeadline, p.ending.Reason)
}

func TestAJobThatNobodyKnowsAnyMoreIsLostAfterSeveralListings(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseRunning)
	c.started(c.worker(0), 0)
	require.NoError(t, a.dir.TakeClaim(spool.Claim{JobID: "7"}))
	c.s.job = nil
	for range lostAfter {
		assert.Nil(t, c.s.ending)
		c.s.listed = c.s.listed.Add(time.Second)
		c.after(time.Second)
	}
	assert.True(t, c.s.abandon, "its agents may live, and are asked to end")
	c.after(lostPatience)
	s := c.after(settle)
	require.NotNil(t, s.ending)
	assert.Equal(t, "Lost", s.ending.Outcome)

	require.NoError(t, spool.Write(a.dir.Result(), spool.Result{ExitCode: 3}))
	outcome, _ := s.outcome()
	assert.Equal(t, "Lost", outcome, "the launcher's word is about an end that was asked for")
	a.lostSince = time.Time{}
	outcome, _ = s.outcome()
	assert.Equal(t, "Failed", outcome, "it counts where nobody had asked")
}

func TestAPodThatEndsWithItsLostJobIsNobodysFault(t *testing.T) {
	for sentence, tc := range map[string]struct {
		code int32
		lost bool
	}{
		"its agent was asked to end":            {143, true},
		"it ended by itself in the last minute": {3, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newScene(t)
			a := c.allocated(wlm.PhaseRunning)
			p := c.worker(0)
			c.started(p, 0)
			require.NoError(t, a.dir.TakeClaim(spool.Claim{JobID: "7"}))
			c.s.job = nil
			for range lostAfter {
				c.s.listed = c.s.listed.Add(time.Second)
				c.after(time.Second)
			}
			require.True(t, c.s.abandon)
			c.finished(p, 0, tc.code)
			c.after(time.Second)
			assert.Equal(t, tc.lost, p.observed.Interrupted, "what it is to be is not known before the job's end is")
			c.after(settle)
			require.NotNil(t, c.s.ending, "nothing is left to wait for")
			require.True(t, p.over)
			assert.Equal(t, tc.lost, p.ending != nil && p.ending.Disruption)
		})
	}
}

func TestAJobThatVanishedBeforeItRanCountsAsNeverSubmitted(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseQueued)
	p := c.worker(0)
	c.s.job = nil
	for range lostAfter {
		c.s.listed = c.s.listed.Add(time.Second)
		c.after(time.Second)
	}
	require.NotNil(t, c.s.ending)
	assert.False(t, p.over, "it waits for another submission")
}

func TestTheJobThatCounts(t *testing.T) {
	live := func(id string, age time.Duration) wlm.Job {
		return wlm.Job{ID: id, Phase: wlm.PhaseQueued, Submitted: testNow.Add(-age)}
	}
	refused := wlm.Job{ID: "1", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeFailed, Submitted: testNow, Ended: testNow}
	cancelled := wlm.Job{ID: "2", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeCancelled, Submitted: testNow, Ended: testNow.Add(time.Minute)}
	cases := map[string]struct {
		jobs             []wlm.Job
		recorded, claims string
		want             string // "" for none
	}{
		"none":             {nil, "", "", ""},
		"the recorded one": {[]wlm.Job{live("3", 9), live("4", 1)}, "4", "", "4"},
		"the recorded one even if it is not there": {[]wlm.Job{live("3", 9)}, "4", "", ""},
		"the one with the claim":                   {[]wlm.Job{live("3", 9), live("4", 1)}, "", "4", "4"},
		"the oldest otherwise":                     {[]wlm.Job{live("4", 1), live("3", 9)}, "", "", "3"},
		"not the record of a refusal":              {[]wlm.Job{refused}, "", "", ""},
		"but one that somebody cancelled":          {[]wlm.Job{refused, cancelled}, "", "", "2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := newScene(t).allocated(wlm.PhaseQueued)
			a.job = nil
			if tc.recorded != "" {
				a.job = &spool.Job{ID: tc.recorded}
			}
			if tc.claims != "" {
				require.NoError(t, a.dir.TakeClaim(spool.Claim{JobID: tc.claims}))
			}
			got, err := chooseJob(t.Context(), tc.jobs, a)
			require.NoError(t, err)
			if tc.want == "" {
				assert.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, tc.want, got.ID)
		})
	}
}

func TestAnExitCodeThatWasToldCountsThoughTheAgentDied(t *testing.T) {
	for sentence, tc := range map[string]struct {
		code   int32
		policy corev1.RestartPolicy
		own    bool
	}{
		"success":                                {0, corev1.RestartPolicyNever, true},
		"failure":                                {3, corev1.RestartPolicyNever, true},
		"the allocation's signal is no own end":  {143, corev1.RestartPolicyNever, false},
		"one that would have been started again": {3, corev1.RestartPolicyOnFailure, false},
		"one that would not":                     {0, corev1.RestartPolicyOnFailure, true},
		"one that never ends by itself":          {0, corev1.RestartPolicyAlways, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newScene(t)
			c.allocated(wlm.PhaseEnded)
			c.s.job.Outcome = wlm.OutcomeFailed
			p := c.worker(0)
			p.pod.Spec.RestartPolicy = tc.policy
			c.finished(p, 0, tc.code)
			c.s.reports[0].Pod.Done = false
			c.decide()
			c.after(settle)
			require.True(t, p.over)
			assert.Equal(t, tc.own, p.ending == nil)
		})
	}
}

func TestAJobThatWasPutBackIntoTheQueueHasEnded(t *testing.T) {
	for sentence, tc := range map[string]struct {
		phase  wlm.Phase
		result *spool.Result
		want   string
	}{
		"its launcher has said its last word":                {wlm.PhaseQueued, &spool.Result{ExitCode: 143}, outcomeRequeued},
		"without that word Slurm may have forgotten a start": {wlm.PhaseQueued, nil, ""},
		"it was started again, and refused":                  {wlm.PhaseEnded, &spool.Result{ExitCode: 1, Requeued: true}, outcomeRequeued},
		"while that runs nothing is known":                   {wlm.PhaseRunning, &spool.Result{ExitCode: 143}, ""},
		"an end like any other":                              {wlm.PhaseEnded, &spool.Result{ExitCode: 3}, string(wlm.OutcomeFailed)},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newScene(t)
			a := c.allocated(tc.phase)
			c.s.job.Outcome = map[bool]wlm.Outcome{true: wlm.OutcomeFailed}[tc.phase == wlm.PhaseEnded]
			if tc.result != nil {
				require.NoError(t, spool.Write(a.dir.Result(), *tc.result))
			}
			outcome, _ := c.s.outcome()
			assert.Equal(t, tc.want, outcome)
		})
	}
}
