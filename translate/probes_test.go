package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	. "github.com/gangline/gangline/translate/translatetest"
)

func TestOrdersOfProbes(t *testing.T) {
	probeOf := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h} }
	get := func(port intstr.IntOrString) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: port}}
	}
	for sentence, c := range map[string]struct{ spec, want corev1.ProbeHandler }{
		"a port has a number": {get(intstr.FromInt(1)), get(intstr.FromInt(1))},
		"a port has a name":   {get(intstr.FromString("web")), get(intstr.FromInt(8080))},
		"an unknown name stays, and the agent tells of it": {get(intstr.FromString("x")), get(intstr.FromString("x"))},
		"a socket's port has a name": {
			corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}},
			corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(8080)}},
		},
		"a command's variables are those that are spelt out": {
			corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", "$(DIR)/ok", "$(OTHER)", "$$(DIR)"}}},
			corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/data/ok", "$(OTHER)", "$(DIR)"}}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			pod := MakePod("p").Env("DIR", "/data").With(func(main *corev1.Container) {
				main.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
				main.ReadinessProbe = probeOf(c.spec)
			}).Obj()
			before := pod.DeepCopy()
			orders, err := Orders(pod, Inputs{})
			require.NoError(t, err)
			assert.Equal(t, &corev1.Probe{
				ProbeHandler: c.want, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
			}, orders.Containers[0].ReadinessProbe)
			assert.Equal(t, before, pod, "the pod stays as it is")
		})
	}
}

func TestOrdersKeepTheNumbersOfAProbe(t *testing.T) {
	p := corev1.Probe{InitialDelaySeconds: 1, TimeoutSeconds: 2, PeriodSeconds: 3, SuccessThreshold: 1, FailureThreshold: 4}
	orders, err := Orders(MakePod("p").With(func(c *corev1.Container) {
		c.StartupProbe, c.LivenessProbe = &p, &p
	}).Obj(), Inputs{})
	require.NoError(t, err)
	assert.Equal(t, &p, orders.Containers[0].StartupProbe)
	assert.Equal(t, &p, orders.Containers[0].LivenessProbe)
	assert.Nil(t, orders.Containers[0].ReadinessProbe)
	assert.Nil(t, orders.Containers[0].Lifecycle)
}

func TestOrdersOfHooks(t *testing.T) {
	get := func(port intstr.IntOrString) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: port}}
	}
	command := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"echo", "$(DIR)"}}}
	orders, err := Orders(MakePod("p").Env("DIR", "/data").With(func(c *corev1.Container) {
		c.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
		c.Lifecycle = &corev1.Lifecycle{PostStart: command, PreStop: get(intstr.FromString("web"))}
	}).Obj(), Inputs{})
	require.NoError(t, err)
	assert.Equal(t, &corev1.Lifecycle{PostStart: command, PreStop: get(intstr.FromInt(8080))}, orders.Containers[0].Lifecycle,
		"kubelet expands no variables in a hook's command")
}
