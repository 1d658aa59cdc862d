package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTaintsAreMergedWithOthers(t *testing.T) {
	since := metav1.NewTime(time.Unix(1, 0))
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &since}
	theirs := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoExecute}
	site := corev1.Taint{Key: "site", Value: "x", Effect: corev1.TaintEffectPreferNoSchedule}
	cases := map[string]struct {
		have   []corev1.Taint
		config []corev1.Taint
		outage bool
		before string
		want   []corev1.Taint
	}{
		"a node without any":   {want: []corev1.Taint{NodeTaint()}},
		"others' stay":         {have: []corev1.Taint{cordon, theirs}, want: []corev1.Taint{cordon, theirs, NodeTaint()}},
		"an outage":            {have: []corev1.Taint{NodeTaint(), theirs}, outage: true, want: []corev1.Taint{theirs, NodeTaint(), outageTaint()}},
		"the end of an outage": {have: []corev1.Taint{NodeTaint(), outageTaint(), theirs}, want: []corev1.Taint{theirs, NodeTaint()}},
		"a configured one":     {have: []corev1.Taint{NodeTaint()}, config: []corev1.Taint{site}, want: []corev1.Taint{NodeTaint(), site}},
		"one that is configured no more": {
			have: []corev1.Taint{NodeTaint(), site, theirs}, before: taintNames([]corev1.Taint{NodeTaint(), site}),
			want: []corev1.Taint{theirs, NodeTaint()},
		},
		"a value that somebody changed": {
			have: []corev1.Taint{{Key: NodeTaint().Key, Value: "other", Effect: NodeTaint().Effect}}, want: []corev1.Taint{NodeTaint()},
		},
		"the time of one that stays": {
			have: []corev1.Taint{{Key: "site", Value: "x", Effect: site.Effect, TimeAdded: &since}}, config: []corev1.Taint{site},
			want: []corev1.Taint{NodeTaint(), {Key: "site", Value: "x", Effect: site.Effect, TimeAdded: &since}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			merged := mergeTaints(c.have, nodeTaints(Config{NodeTaints: c.config}, c.outage), c.before)
			assert.Equal(t, c.want, merged)
			assert.True(t, sameTaints(merged, mergeTaints(merged, nodeTaints(Config{NodeTaints: c.config}, c.outage), c.before)), "once is enough")
		})
	}
}
