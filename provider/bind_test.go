package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestAnAllocationThatIsGivenBackTakesNoNewPods(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseRunning)
	a.gang.Release = true
	p := c.worker(0)
	c.s.job.Phase, c.s.job.Outcome = wlm.PhaseEnded, wlm.OutcomeCompleted
	s := c.decide()
	require.NotNil(t, s.ending)
	assert.Equal(t, -1, p.slot)
	assert.Equal(t, wellknown.ReasonWaitingForSlot, p.waiting.Reason)
	assert.Nil(t, p.ending, "it waits for the next allocation")
}

func TestWhoHadNotStartedWaitsForTheNextAllocation(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseRunning)
	ran, late := c.worker(0), c.launcher()
	c.started(ran, 0)
	a.pods[ran.uid()] = 0
	c.s.job.Phase, c.s.job.Outcome = wlm.PhaseEnded, wlm.OutcomeNodeFailure
	c.decide()
	c.after(settle)
	assert.True(t, ran.over)
	assert.False(t, late.over)
}

func TestWhoWaitedForAJobThatNeverRanFailsWithIt(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseQueued)
	p := c.worker(0)
	c.s.job.Phase, c.s.job.Outcome = wlm.PhaseEnded, wlm.OutcomeCancelled
	c.decide()
	require.NotNil(t, p.ending, "an administrator's scancel is not answered by another submission")
	assert.Equal(t, wellknown.ReasonCancelled, p.ending.Reason)
}

func TestAPlaceWhosePodHasSucceededIsFilled(t *testing.T) {
	c := newScene(t)
	done := c.worker(0)
	done.pod.Status.Phase = corev1.PodSucceeded
	done.before = &place{slot: 0, ended: &spool.Ended{}}
	assert.False(t, c.decide().mustSubmit(), "nobody waits")
	c.worker(1)
	assert.True(t, c.decide().mustSubmit(), "the Job brings no other pod for it")
}

func TestAPodWhoseAllocationHasEndedNeverRunsAgain(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseRunning)
	a.ended = &spool.Ended{Outcome: "NodeFailure"}
	for k, p := range []*podState{c.worker(0), c.worker(1)} {
		p.before = &place{slot: k, ended: a.ended}
	}
	s := c.decide()
	assert.False(t, s.mustSubmit())
	for _, p := range s.pods {
		assert.True(t, p.over)
		assert.Equal(t, wellknown.ReasonNodeFailure, p.ending.Reason)
	}
}

func TestAPodThatOthersFailedIsStoppedAndKeepsItsPlace(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	failed := c.worker(0)
	c.started(failed, 0)
	failed.pod.Status.Phase = corev1.PodFailed
	again := c.worker(0)
	s := c.decide()
	assert.True(t, failed.stop)
	assert.Equal(t, -1, again.slot, "two processes of one place would collide")
	assert.False(t, s.releasing)
}
