package translate_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// FuzzGangs: whatever the annotations and labels of pods and owners say of a gang, each place
// is one of its own, all that ask for something get a task or ride in one, and no gang is
// larger than it may be.
func FuzzGangs(f *testing.F) {
	for _, seed := range []struct{ size, slots, rides, lws, group, worker string }{
		{"3", "8", "true", "4", "0", "1"}, {"100001", "9223372036854775807", "T", "2147483648", "-1", "-5"}, {"0", "0", "false", "0", "9223372036854775807", "0"},
		{"-1", "-1", "yes", "x", "1", "2"}, {"+4", "08", "1", "64", "00", "+1"}, {"9223372036854775808", "", "", "9223372036854775807", "", ""}, {"65", "1073741825", "0", "65", "2", "64"},
	} {
		f.Add(seed.size, seed.slots, seed.rides, seed.lws, seed.group, seed.worker, int32(3), int32(2))
	}
	f.Fuzz(func(t *testing.T, size, slots, rides, lws, group, worker string, jobs, pods int32) {
		o := options()
		o.Pods = 64
		template := hpcPod("1", "0").Annotation(wellknown.AnnotationMPISlots, slots).Annotation(wellknown.AnnotationRides, rides)
		pod := template.Annotation(wellknown.AnnotationGangName, "g").Annotation(wellknown.AnnotationGangSize, size).
			Annotation(wellknown.AnnotationLWSSize, lws).Label(wellknown.LabelLWSName, "s").
			Label(wellknown.LabelLWSGroupIndex, group).Label(wellknown.LabelLWSWorkerIndex, worker).Obj()
		if n, rejection := translate.GangSize(pod); rejection == nil {
			assert.True(t, n >= 1 && n <= translate.MostPods)
			checkGang(t, translate.NamedGang("k", []*corev1.Pod{pod}, n, o), o, slots)
		}
		if g, role, is := translate.LWSGroupOf(pod); is {
			assert.Equal(t, "s", g.Set)
			quoted := func(s string) string { return strconv.QuoteToASCII(s) }
			set := object(t, fmt.Sprintf(`{metadata: {name: s, uid: u}, spec: {replicas: %d, leaderWorkerTemplate: {size: %d, leaderTemplate: %s, workerTemplate: `+
				`{metadata: {annotations: {%s: "true"}}, spec: {nodeSelector: {hpc: "yes"}, containers: [{name: main}]}}}}}`, jobs, pods, hpcTemplate, quoted(wellknown.AnnotationRides)))
			d, err := translate.LWSGang(set, g, []*corev1.Pod{pod}, o)
			require.NoError(t, err)
			checkGang(t, d.Gang, o, "")
			if slot, found := d.SlotFor(role, func(int) bool { return true }); found {
				assert.Equal(t, role.Group, d.Slots[slot].Role.Group)
			}
		}
		js := translatetest.MakeJobSet("pi").Jobs("launcher", 1, 1, template.Obj()).Jobs("worker", jobs, pods, hpcPod("4", "2").Annotation(wellknown.AnnotationRides, rides).Obj()).Obj()
		checkGang(t, translate.JobSetGang(js, 0, o), o, "")
	})
}

// checkGang tells of any gang what must be so. Slots is what a pod is annotated with.
func checkGang(t *testing.T, g translate.Gang, o translate.Options, slots string) {
	t.Helper()
	if len(g.Slots) == 0 {
		assert.True(t, g.Size() == 0 || g.Size() > int64(o.Pods), "%d pods and no places", g.Size())
		return
	}
	assert.LessOrEqual(t, len(g.Slots), o.Pods)
	assert.EqualValues(t, len(g.Slots), g.Size())
	seen := map[translate.Role]bool{}
	riders, tasks, served := 0, 0, map[int]bool{}
	for k, s := range g.Slots {
		assert.False(t, seen[s.Role], "two places %s", s.Role)
		seen[s.Role] = true
		found, ok := g.SlotFor(s.Role, func(k int) bool { return g.Slots[k].Role == s.Role })
		assert.True(t, ok && found == k, "a pod finds its place")
		assert.GreaterOrEqual(t, s.MPISlots, 0)
		if s.Rides {
			riders++
			assert.Zero(t, s.MPISlots)
		}
	}
	if n, err := strconv.Atoi(slots); err == nil && n > 0 {
		assert.Contains(t, []int{0, 1, n}, g.Slots[0].MPISlots)
	}
	for _, group := range g.TaskGroups() {
		tasks += group.Tasks
	}
	assert.Equal(t, len(g.Slots), riders+tasks)
	assert.Positive(t, tasks, "something carries those that ride")
	require.Len(t, g.Tasks(), tasks)
	for _, of := range g.Tasks() {
		for _, k := range of {
			assert.False(t, served[k], "a place is in one task")
			served[k] = true
		}
	}
	assert.Len(t, served, len(g.Slots))
}
