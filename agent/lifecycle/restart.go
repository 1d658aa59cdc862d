package lifecycle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// restarts tells whether a container that ended is to be started again, as
// Kubernetes decides (pkg/api/v1/pod: ContainerShouldRestart): by the first of its
// own rules that matches, else by its own policy, else by the pod's. What a probe
// has ended starts again whatever its exit code, unless it never does.
func (c *container) restarts() bool {
	if _, ok := c.rule(); ok {
		return true
	}
	switch c.policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return c.condemned || c.terminated.ExitCode != 0
	default:
		return true
	}
}

// rule returns what the first of the container's rules that matches its last exit
// code asks for.
func (c *container) rule() (corev1.ContainerRestartRuleAction, bool) {
	return spool.RestartAction(c.orders.RestartPolicy, c.orders.RestartPolicyRules, c.terminated.ExitCode)
}

// restartsAll tells that the container's end asks for the whole pod to start again.
func (c *container) restartsAll() bool {
	if c.phase != ended {
		return false
	}
	action, ok := c.rule()
	return ok && action == corev1.ContainerRestartRuleActionRestartAllContainers
}

// restartAll carries on with the restart of all containers that one of them has
// asked for: whatever runs is ended without grace, then the pod begins anew with
// its first init container. Ephemeral containers are left alone. It returns true while
// that holds everything else up.
//
// Kubelet begins anew at once. Here the back-off of the container that asked is
// waited for, so that a pod whose containers fail at once does not spin.
func (p *Pod) restartAll(s *step) (busy bool) {
	all := ordinary(p.all())
	asked := slices.DeleteFunc(slices.Clone(all), func(c *container) bool { return !c.restartsAll() })
	if len(asked) == 0 {
		p.restarting = false
		return false
	}
	p.startEphemerals(s)
	for _, c := range all {
		c.waitsForBackOff, c.waitsForImage = false, false
		if !p.restarting && c.active() {
			p.tell(c, s.now, corev1.EventTypeNormal, "Killing",
				fmt.Sprintf("Stopping container %s: all containers start again after the end of %s", c.name, asked[0].name))
			c.stop(s.now, 0)
		}
	}
	p.restarting = true
	if slices.ContainsFunc(all, (*container).active) {
		return true
	}
	for _, c := range asked {
		if due := c.due(s.now); due.After(s.now) {
			c.waitsForBackOff, busy = true, true
			s.wakeAt(due)
		}
	}
	if busy {
		return true
	}
	for _, c := range asked {
		c.raiseBackOff(s.now)
	}
	for _, c := range all {
		c.phase = idle
	}
	p.restarting = false
	return false
}
