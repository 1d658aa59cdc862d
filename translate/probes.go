package translate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gangline/gangline/provider/spool"
)

// Kubernetes' defaults for probes, for pods that did not pass through an API
// server.
const (
	defaultProbeTimeout   = 1  // seconds
	defaultProbePeriod    = 10 // seconds
	defaultProbeSuccesses = 1
	defaultProbeFailures  = 3
)

// addHealth adds a container's probes, hooks and restart rules to its orders.
func addHealth(o *spool.ContainerOrders, c *corev1.Container) {
	o.RestartPolicyRules = c.RestartPolicyRules
	o.StartupProbe = orderedProbe(c, c.StartupProbe)
	o.LivenessProbe = orderedProbe(c, c.LivenessProbe)
	o.ReadinessProbe = orderedProbe(c, c.ReadinessProbe)
	if c.Lifecycle == nil {
		return
	}
	o.Lifecycle = c.Lifecycle.DeepCopy()
	for _, hook := range []*corev1.LifecycleHandler{o.Lifecycle.PostStart, o.Lifecycle.PreStop} {
		if hook != nil && hook.HTTPGet != nil {
			hook.HTTPGet.Port = numbered(c, hook.HTTPGet.Port)
		}
	}
}

// orderedProbe is a probe as an agent needs it. As with kubelet, $(VAR) in a
// command means the variables that the container spells out itself.
func orderedProbe(c *corev1.Container, spec *corev1.Probe) *corev1.Probe {
	if spec == nil {
		return nil
	}
	p := spec.DeepCopy()
	for value, otherwise := range map[*int32]int32{
		&p.TimeoutSeconds: defaultProbeTimeout, &p.PeriodSeconds: defaultProbePeriod,
		&p.SuccessThreshold: defaultProbeSuccesses, &p.FailureThreshold: defaultProbeFailures,
	} {
		if *value == 0 {
			*value = otherwise
		}
	}
	switch {
	case p.Exec != nil:
		for i, word := range p.Exec.Command {
			p.Exec.Command[i] = Expand(word, staticVariable(c))
		}
	case p.HTTPGet != nil:
		p.HTTPGet.Port = numbered(c, p.HTTPGet.Port)
	case p.TCPSocket != nil:
		p.TCPSocket.Port = numbered(c, p.TCPSocket.Port)
	}
	return p
}

func staticVariable(c *corev1.Container) func(string) (string, bool) {
	values := map[string]string{}
	for _, e := range c.Env {
		values[e.Name] = e.Value
	}
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

// numbered resolves the name of one of the container's ports. An unknown name
// stays: the agent tells of it when it is to be used, as kubelet does.
func numbered(c *corev1.Container, port intstr.IntOrString) intstr.IntOrString {
	if port.Type != intstr.String {
		return port
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return intstr.FromInt32(p.ContainerPort)
		}
	}
	return port
}
