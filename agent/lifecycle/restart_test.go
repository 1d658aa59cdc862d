package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/probe"
	"github.com/gangline/gangline/provider/spool"
)

const (
	restart    = corev1.ContainerRestartRuleActionRestart
	restartAll = corev1.ContainerRestartRuleActionRestartAllContainers
	in         = corev1.ContainerRestartRuleOnExitCodesOpIn
	notIn      = corev1.ContainerRestartRuleOnExitCodesOpNotIn
)

func rule(a corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
	return corev1.ContainerRestartRule{Action: a, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
}

func withRules(name string, p corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) spool.ContainerOrders {
	c := withPolicy(name, p)
	c.RestartPolicyRules = rules
	return c
}

func TestRestartRules(t *testing.T) {
	const (
		neverOwn = corev1.ContainerRestartPolicyNever
		failOwn  = corev1.ContainerRestartPolicyOnFailure
	)
	for sentence, c := range map[string]struct {
		main     spool.ContainerOrders
		code     int
		restarts bool
	}{
		"a listed code restarts what never would":                {withRules("m", neverOwn, rule(restart, in, 42, 43)), 43, true},
		"another code is left to the policy":                     {withRules("m", neverOwn, rule(restart, in, 42)), 1, false},
		"a code that is not listed, by the opposite":             {withRules("m", neverOwn, rule(restart, notIn, 0, 1)), 2, true},
		"a listed one, by the opposite":                          {withRules("m", neverOwn, rule(restart, notIn, 0, 1)), 1, false},
		"the second rule counts where the first does not match":  {withRules("m", neverOwn, rule(restart, in, 1), rule(restart, in, 2)), 2, true},
		"a rule that matches success":                            {withRules("m", failOwn, rule(restart, in, 0)), 0, true},
		"without a match the container's own policy counts":      {withRules("m", failOwn, rule(restart, in, 9)), 3, true},
		"rules without a policy of the container's do not count": {spool.ContainerOrders{Name: "m", RestartPolicyRules: []corev1.ContainerRestartRule{rule(restart, in, 3)}}, 3, false},
		"a rule without exit codes does not match":               {withRules("m", neverOwn, corev1.ContainerRestartRule{Action: restart}), 3, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, never, nil, one(c.main))
			w.expect("start m 0")
			w.exit("m", c.code)
			if c.restarts {
				w.expect("start m 1")
				return
			}
			w.expect()
			w.finished(true)
		})
	}
}

func TestRestartRulesStories(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T){
		"an init container that fails starts again by its rule": func(t *testing.T) {
			w := newWorld(t, never, one(withRules("i", corev1.ContainerRestartPolicyNever, rule(restart, in, 42))), containers("m"))
			w.expect("start i 0")
			w.exit("i", 42)
			w.expect("start i 1")
			w.exit("i", 1)
			w.expect()
			w.finished(true)
		},
		"a failed liveness probe is no exit code": func(t *testing.T) {
			w := newWorld(t, always, nil, one(live(withRules("m", corev1.ContainerRestartPolicyNever, rule(restart, in, 42)))))
			w.expect("start m 0")
			w.expect("probe m 0 Liveness")
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.after(10 * time.Second)
			w.expect("probe m 0 Liveness")
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.expect("terminate m 0")
			w.events(
				"m Warning Unhealthy: Liveness probe failed: said so",
				"m Normal Killing: Container m failed liveness probe",
			)
			w.exit("m", 143)
			w.expect()
			w.finished(true)
		},
		"all containers start again, from the first init container": func(t *testing.T) {
			asks := withRules("a", corev1.ContainerRestartPolicyNever, rule(restartAll, in, 42))
			w := newWorld(t, never, []spool.ContainerOrders{{Name: "i"}, sidecar("s")}, []spool.ContainerOrders{asks, hooks(named("b"), lifecycle.PreStop)})
			w.expect("start i 0")
			w.exit("i", 0)
			w.expect("start s 0")
			w.expect("start a 0", "start b 0")
			w.exit("a", 42)
			assert.False(t, w.pod.Status().Restarting)
			w.expect("terminate s 0", "terminate b 0")
			assert.True(t, w.pod.Status().Restarting)
			w.wakesIn(2 * time.Second)
			w.exit("b", 143)
			w.after(2 * time.Second)
			w.expect("kill s 0")
			w.exit("s", 137)
			w.expect("start i 1")
			w.finished(false)
			s := w.pod.Status()
			assert.False(t, s.Restarting)
			assert.EqualValues(t, 1, s.InitContainers[0].RestartCount)
			assert.EqualValues(t, 42, s.Containers[0].LastTerminationState.Terminated.ExitCode)
			assert.Equal(t, "PodInitializing", s.Containers[0].State.Waiting.Reason)
			w.exit("i", 0)
			w.expect("start s 1")
			w.expect("start a 1", "start b 1")
			assert.EqualValues(t, 1, w.main(1).RestartCount)
			w.exit("a", 0)
			w.exit("b", 0)
			w.expect("terminate s 1")
			w.exit("s", 0)
			w.expect()
			w.finished(true)
			w.events(
				"s Normal Killing: Stopping container s: all containers start again after the end of a",
				"b Normal Killing: Stopping container b: all containers start again after the end of a",
			)
		},
		"the back-off of the one that asked holds all of them up": func(t *testing.T) {
			w := newWorld(t, never, nil, []spool.ContainerOrders{withRules("a", corev1.ContainerRestartPolicyNever, rule(restartAll, in, 42)), named("b")})
			w.expect("start a 0", "start b 0")
			w.exit("b", 0)
			w.exit("a", 42)
			w.expect("start a 1", "start b 1")
			w.exit("a", 42)
			w.exit("b", 3)
			w.expect()
			w.wakesIn(10 * time.Second)
			assert.Equal(t, "CrashLoopBackOff", w.main(0).State.Waiting.Reason)
			assert.EqualValues(t, 3, w.main(1).State.Terminated.ExitCode)
			w.after(10 * time.Second)
			w.expect("start a 2", "start b 2")
		},
		"ephemeral containers are left alone, and may begin in between": func(t *testing.T) {
			w := newWorld(t, never, nil, []spool.ContainerOrders{withRules("a", corev1.ContainerRestartPolicyNever, rule(restartAll, in, 42)), named("b")})
			w.expect("start a 0", "start b 0")
			w.debug("one")
			w.expect("start one 0")
			w.exit("a", 42)
			w.debug("two")
			w.expect("start two 0", "terminate b 0")
			w.exit("b", 143)
			w.exit("two", 0)
			w.expect("start a 1", "start b 1")
			assert.NotNil(t, w.pod.Status().EphemeralContainers[0].State.Running)
			assert.NotNil(t, w.pod.Status().EphemeralContainers[1].State.Terminated)
		},
		"a container that was held back is not any more": func(t *testing.T) {
			w := newWorld(t, always, nil, []spool.ContainerOrders{withRules("a", corev1.ContainerRestartPolicyNever, rule(restartAll, in, 42)), named("b")})
			w.expect("start a 0", "start b 0")
			w.exit("b", 1)
			w.expect("start b 1")
			w.exit("b", 1)
			w.expect()
			assert.Equal(t, "CrashLoopBackOff", w.main(1).State.Waiting.Reason)
			w.exit("a", 42)
			w.expect("start a 1", "start b 2")
			assert.NotNil(t, w.main(1).State.Running)
		},
		"a stop ends the restart of all": func(t *testing.T) {
			w := newWorld(t, always, nil, []spool.ContainerOrders{withRules("a", corev1.ContainerRestartPolicyNever, rule(restartAll, in, 42)), named("b")})
			w.expect("start a 0", "start b 0")
			w.exit("a", 42)
			w.expect("terminate b 0")
			w.stop(30 * time.Second)
			assert.False(t, w.pod.Status().Restarting)
			w.expect()
			w.exit("b", 143)
			w.expect()
			w.finished(true)
			assert.EqualValues(t, 42, w.main(0).State.Terminated.ExitCode)
		},
	} {
		t.Run(sentence, story)
	}
}
