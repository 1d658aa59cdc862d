package spool

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// RestartAction is what the first of a container's own rules that matches an exit code
// asks for. Without a policy of its own a container has no rules. Source: KEP-5307,
// pkg/api/v1/pod (ContainerShouldRestart).
func RestartAction(policy *corev1.ContainerRestartPolicy, rules []corev1.ContainerRestartRule, code int32) (corev1.ContainerRestartRuleAction, bool) {
	if policy == nil {
		return "", false
	}
	for _, r := range rules {
		if r.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(r.ExitCodes.Values, code)
		switch r.ExitCodes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
			if listed {
				return r.Action, true
			}
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			if !listed {
				return r.Action, true
			}
		}
	}
	return "", false
}
