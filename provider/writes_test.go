package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestPodPatch(t *testing.T) {
	before := translatetest.MakePod("p").Annotation("theirs", "x").Obj()
	before.Finalizers = []string{"other.example/f", wellknown.Finalizer}
	cases := map[string]struct {
		change func(*corev1.Pod)
		want   string // "" for no write at all
	}{
		"nothing changed":                          {func(*corev1.Pod) {}, ""},
		"only the spec changed, which is not ours": {func(p *corev1.Pod) { p.Spec.NodeName = "x" }, ""},
		"a phase": {
			func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
			`{"metadata":{"uid":"p-uid"},"status":{"phase":"Running"}}`,
		},
		"the last status and the finalizer in one write": {
			func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
				p.Finalizers = []string{"other.example/f"}
			},
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["gangline.dev/allocation"],` +
				`"$setElementOrder/finalizers":["other.example/f"],"uid":"p-uid"},"status":{"phase":"Failed"}}`,
		},
		"an annotation beside others'": {
			func(p *corev1.Pod) { p.Annotations[wellknown.AnnotationJobID] = "7" },
			`{"metadata":{"annotations":{"gangline.dev/job-id":"7"},"uid":"p-uid"}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			after := before.DeepCopy()
			c.change(after)
			patch, err := podPatch(before, after)
			require.NoError(t, err)
			if c.want == "" {
				assert.Nil(t, patch)
				return
			}
			assert.JSONEq(t, c.want, string(patch))
		})
	}
}
