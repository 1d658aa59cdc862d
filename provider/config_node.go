package provider

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// nodeProblems is what the API server would refuse of the configured labels and
// taints, and what the node sets itself.
func (c *Config) nodeProblems() []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	own := nodeLabels(Config{}, wlm.Inventory{})
	for key, value := range c.NodeLabels {
		for _, p := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			add("nodeLabels: %s=%s cannot be a label: %s", key, value, p)
		}
		if _, set := own[key]; set {
			add("nodeLabels: the node sets %s itself", key)
		}
	}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	for _, t := range c.NodeTaints {
		for _, p := range append(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value)...) {
			add("nodeTaints: %s=%s cannot be a taint: %s", t.Key, t.Value, p)
		}
		if !slices.Contains(effects, t.Effect) {
			add("nodeTaints: the effect of %s must be one of %v, not %q", t.Key, effects, t.Effect)
		}
		for _, mine := range nodeTaints(Config{}, true) {
			if mine.MatchTaint(&t) {
				add("nodeTaints: the node sets %s itself", taintName(t))
			}
		}
	}
	return problems
}

// Ports are the ports of the process's virtual nodes, the first one's first.
func (c Config) Ports() []KubeletConfig {
	var all []KubeletConfig
	for _, n := range c.each() {
		all = append(all, n.Kubelet)
	}
	return all
}

// wishProblems is what is wrong with what the site lets pods ask for.
func (c *Config) wishProblems() []string {
	problems := append(c.Resources.Problems(), translate.FlagProblems(c.Slurm.AllowedFlags)...)
	for _, class := range slices.Sorted(maps.Keys(c.PriorityClasses)) {
		if nice := c.PriorityClasses[class]; nice < 0 || nice > translate.MaxNice {
			problems = append(problems, fmt.Sprintf("priorityClasses: %s: %d is no niceness from 0 to %d", class, nice, translate.MaxNice))
		}
	}
	return problems
}
