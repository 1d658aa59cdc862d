package provider

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

// NodeTaint keeps away the pods that did not ask for the HPC side.
func NodeTaint() corev1.Taint {
	return corev1.Taint{Key: wellknown.TaintKey, Value: wellknown.TaintValue, Effect: corev1.TaintEffectNoSchedule}
}

// outageTaint keeps new pods away while the workload manager is silent. Those
// that are there stay.
func outageTaint() corev1.Taint {
	return corev1.Taint{Key: wellknown.TaintUnreachable, Effect: corev1.TaintEffectNoSchedule}
}

// configuredTaints are the node's own and those of the configuration.
func configuredTaints(c Config) []corev1.Taint {
	return append([]corev1.Taint{NodeTaint()}, c.NodeTaints...)
}

// nodeTaints are those that the node is to have now.
func nodeTaints(c Config, outage bool) []corev1.Taint {
	taints := configuredTaints(c)
	if outage {
		taints = append(taints, outageTaint())
	}
	return taints
}

// taintName tells taints of one node apart, as the API server does.
func taintName(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

// taintNames is the text of the annotation that remembers which taints are ours.
func taintNames(taints []corev1.Taint) string {
	var names []string
	for _, t := range taints {
		names = append(names, taintName(t))
	}
	return strings.Join(names, ",")
}

// mergeTaints brings a node's taints to what is wanted. Others' stay, as those
// of kubectl cordon, of kubectl taint and of the node lifecycle controller. Ours
// go when they are not wanted any more: before is the text of the annotation.
func mergeTaints(have, want []corev1.Taint, before string) []corev1.Taint {
	ours := append(strings.Split(before, ","), taintName(outageTaint()))
	var merged []corev1.Taint
	for _, t := range have {
		wanted := slices.ContainsFunc(want, func(w corev1.Taint) bool { return w.MatchTaint(&t) })
		if !wanted && !slices.Contains(ours, taintName(t)) {
			merged = append(merged, t)
		}
	}
	// Wanted ones keep the time they have.
	for _, w := range want {
		if i := slices.IndexFunc(have, func(t corev1.Taint) bool { return t.MatchTaint(&w) }); i >= 0 && have[i].Value == w.Value {
			w.TimeAdded = have[i].TimeAdded
		}
		merged = append(merged, w)
	}
	return merged
}

// sameTaints compares without regard to order.
func sameTaints(a, b []corev1.Taint) bool {
	if len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(t corev1.Taint) bool {
		return !slices.ContainsFunc(b, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value })
	})
}
