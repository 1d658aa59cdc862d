package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

// begun is a pod that has run for a minute.
func (c *scene) begun(p *podState) *podState {
	c.started(p, 0)
	p.pod.Status.StartTime = ptr.To(metav1.NewTime(testNow.Add(-time.Minute)))
	p.pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](9)
	return p
}

func TestADeadlineMayComeWhileThePodRuns(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	p := c.begun(c.worker(0))
	c.decide()
	assert.False(t, p.stop)
	p.pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](600)
	assert.LessOrEqual(t, c.decide().recheck, 9*time.Minute)
	assert.False(t, p.stop)
	p.pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](30)
	c.decide()
	assert.True(t, p.stop)
	assert.EqualValues(t, 9, p.grace, "its own grace period")
	assert.Equal(t, wellknown.ReasonDeadline, p.ending.Reason)
	assert.False(t, p.ending.Disruption, "the limit is the user's")
}

func TestWhatEndedByItselfHasNotExceededItsDeadline(t *testing.T) {
	for sentence, c := range map[string]struct {
		action   spool.Action
		exceeded bool
	}{
		"nobody had stopped it":        {spool.ActionRun, false},
		"it ended because it was told": {spool.ActionStop, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			scene := newScene(t)
			a := scene.allocated(wlm.PhaseRunning)
			p := scene.begun(scene.worker(0))
			p.pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](30)
			scene.finished(p, 0, 0)
			d := a.desired[0]
			d.Action = c.action
			a.desired[0] = d
			scene.decide()
			assert.True(t, p.over)
			assert.Equal(t, c.exceeded, p.ended() != nil)
		})
	}
}

func TestALaterDeleteShortensTheGrace(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	p := deleted(c.begun(c.worker(0)), 30)
	c.decide()
	assert.EqualValues(t, 30, p.grace)
	for _, grace := range []int64{5, 0} {
		deleted(p, grace)
		c.decide()
		assert.True(t, p.stop)
		assert.Equal(t, grace, p.grace)
	}
}

func TestTheTimeOfAStopIsThePodsAlone(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseRunning)
	r := &Reconciler{registry: newRegistry(c.names()), recorder: record.NewFakeRecorder(10)}
	stop := func(p *podState) {
		t.Helper()
		deleted(p, 30)
		c.decide()
		require.NoError(t, r.orderStop(t.Context(), c.s, p))
		assert.False(t, c.decide().releasing)
	}
	first := c.worker(0)
	c.started(first, 0)
	stop(first)
	c.finished(first, 0, 0)
	first.pod.Status.Phase = corev1.PodFailed

	second := c.worker(0)
	c.decide()
	require.Equal(t, 0, second.slot, "the place is another's now")
	require.NoError(t, r.writeDesired(t.Context(), a, 0, spool.Desired{PodUID: string(second.uid()), Action: spool.ActionRun}))
	c.started(second, 0)
	c.after(5 * time.Minute)
	stop(second)
	assert.False(t, c.after(80*time.Second).releasing)
	assert.True(t, c.after(10*time.Second).releasing)
}

func TestAContainersOwnPolicyCountsWhenItsAgentHasDied(t *testing.T) {
	rule := func(op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{
			Action:    corev1.ContainerRestartRuleActionRestart,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes},
		}}
	}
	const never, always = corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyAlways
	for sentence, tc := range map[string]struct {
		pod   corev1.RestartPolicy
		own   *corev1.ContainerRestartPolicy
		rules []corev1.ContainerRestartRule
		code  int32
		again bool
	}{
		"the pod's":                        {pod: corev1.RestartPolicyNever, code: 1},
		"the pod's, on failure":            {pod: corev1.RestartPolicyOnFailure, code: 1, again: true},
		"the pod's, without one":           {pod: corev1.RestartPolicyOnFailure},
		"its own":                          {pod: corev1.RestartPolicyNever, own: ptr.To(always), again: true},
		"its own, though the pod's is not": {pod: corev1.RestartPolicyAlways, own: ptr.To(never), code: 1},
		"a rule":                           {pod: corev1.RestartPolicyNever, own: ptr.To(never), rules: rule(corev1.ContainerRestartRuleOnExitCodesOpIn, 42), code: 42, again: true},
		"a rule for others":                {pod: corev1.RestartPolicyNever, own: ptr.To(never), rules: rule(corev1.ContainerRestartRuleOnExitCodesOpIn, 42), code: 1},
		"a rule for all others":            {pod: corev1.RestartPolicyNever, own: ptr.To(never), rules: rule(corev1.ContainerRestartRuleOnExitCodesOpNotIn, 42), code: 1, again: true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tc.pod, Containers: []corev1.Container{
			{Name: "main", RestartPolicy: tc.own, RestartPolicyRules: tc.rules},
		}}}
		assert.Equal(t, tc.again, startsAgain(pod, "main", tc.code), sentence)
		observed := &spool.PodStatus{Containers: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.code}},
		}}}
		assert.Equal(t, !tc.again, endedByItself(&podState{pod: pod, observed: observed}), sentence)
	}
}
