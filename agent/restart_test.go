package agent_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
)

func TestAContainersOwnStopSignal(t *testing.T) {
	w := single(t)
	o := w.orders("u", "trap 'echo term; exit 1' TERM; trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done")
	o.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}
	w.run(0, o)
	w.waitLog(0, "u", "ready")
	w.stop(0, "u", 20)
	assert.Equal(t, 9, exitCode(t, w.done(0, "u")))
	assert.Equal(t, "ready\n", w.log(0, "u", "main", 0, "stdout"))
}

func TestAllContainersStartAgain(t *testing.T) {
	w := single(t)
	rule := corev1.ContainerRestartRule{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}
	o := w.orders("u", "until test -e /data/up; do sleep 0.05; done; rm /data/up; test -e /data/again || { touch /data/again; exit 42; }")
	o.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	o.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{rule}
	o.InitContainers = []spool.ContainerOrders{shell("setup", "echo setup")}
	o.Containers = append(o.Containers, shell("other", "touch /data/up; test -e /data/again && exit 0; trap 'exit 0' TERM; while :; do sleep 0.05; done"))
	o.Volumes = []spool.Volume{{Name: "data", EmptyDir: &spool.EmptyDir{}}}
	for i := range o.Containers {
		o.Containers[i].Mounts = []spool.Mount{{Volume: "data", Path: "/data"}}
	}
	w.run(0, o)
	p := w.done(0, "u")
	assert.False(t, p.Restarting)
	for _, s := range append(p.InitContainers, p.Containers...) {
		assert.EqualValues(t, 1, s.RestartCount, s.Name)
		assert.EqualValues(t, 0, s.State.Terminated.ExitCode, s.Name)
	}
	assert.EqualValues(t, 42, p.Containers[0].LastTerminationState.Terminated.ExitCode)
	assert.Equal(t, "setup\n", w.log(0, "u", "setup", 1, "stdout"), "each run has a log of its own")
}
