package provider

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestAStateOnTheWayToAStartIsNotWrittenIfItPasses(t *testing.T) {
	const forEver = time.Duration(-1)
	for sentence, tc := range map[string]struct {
		change func(s *state, p *podState, after *corev1.Pod)
		waits  time.Duration // 0: it is written at once, if there is anything to write
	}{
		"an agent that has reported":            {func(*state, *podState, *corev1.Pod) {}, passing},
		"a pod of whose agent nothing is known": {func(_ *state, p *podState, _ *corev1.Pod) { p.agent = nil }, passing},
		"a pod that runs":                       {func(_ *state, _ *podState, after *corev1.Pod) { after.Status.Phase = corev1.PodRunning }, 0},
		"nothing has changed":                   {func(_ *state, p *podState, after *corev1.Pod) { *after = *p.pod }, 0},
		"the place is not written down, and the agent waits for orders": {func(_ *state, p *podState, _ *corev1.Pod) { p.pod.Annotations = nil }, 0},
		"the place is not written down, and no listing has had the job": {func(_ *state, p *podState, _ *corev1.Pod) { p.pod.Annotations, p.agent = nil, nil }, firstListing},
		"the place is not written down, and the job is known": {func(s *state, p *podState, _ *corev1.Pod) {
			p.pod.Annotations, p.agent, s.job = nil, nil, &wlm.Job{}
		}, 0},
		"a process that has just begun has heard less than the one before": {func(s *state, p *podState, _ *corev1.Pod) {
			p.agent, p.pod.Status.Reason, s.alloc = nil, wellknown.ReasonQueued, &allocation{job: &spool.Job{ID: "7"}}
		}, forEver},
		"… and it has heard": {func(s *state, p *podState, _ *corev1.Pod) {
			p.agent, p.pod.Status.Reason, s.alloc, s.listed = nil, wellknown.ReasonQueued, &allocation{job: &spool.Job{ID: "7"}}, testNow
		}, passing},
		"the first that ran of a pod": {func(_ *state, _ *podState, after *corev1.Pod) {
			after.Status.InitContainerStatuses = []corev1.ContainerStatus{{ContainerID: "gangline://x"}}
		}, 0},
		"the pod lacks something": {func(_ *state, p *podState, _ *corev1.Pod) { p.waiting.Reason = wellknown.ReasonConfigError }, 0},
		"the pod is over":         {func(_ *state, p *podState, _ *corev1.Pod) { p.over = true }, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := &podState{pod: translatetest.MakePod("p").Obj(), agent: &spool.Agent{Instance: "i"}}
			p.pod.Annotations = map[string]string{wellknown.AnnotationAllocation: "pi-1"}
			after := p.pod.DeepCopy()
			after.Status.Message = "another"
			s := &state{now: testNow, note: &note{}}
			tc.change(s, p, after)
			assert.Equal(t, tc.waits != 0, s.mayWait(p, after))
			if tc.waits == forEver {
				assert.Zero(t, s.recheck, "the first listing has it looked at")
				return
			}
			assert.Equal(t, tc.waits, s.recheck, "it is looked at again in time")
			if tc.waits == 0 {
				return
			}
			s.now = s.now.Add(tc.waits)
			assert.False(t, s.mayWait(p, after), "a state that stays is shown")
			assert.False(t, s.mayWait(p, p.pod), "it is written")
			assert.True(t, s.mayWait(p, after), "the next has its own time")
		})
	}
}

func TestPodsOfAGangAreWrittenSideBySide(t *testing.T) {
	var pods []client.Object
	var changes []podChange
	for i := range 20 {
		pod := translatetest.MakePod(fmt.Sprintf("p%d", i)).Obj()
		pod.Namespace, pod.UID = "default", types.UID(fmt.Sprint(i))
		pods = append(pods, pod)
		after := pod.DeepCopy()
		if i != 3 {
			after.Status.Message = "m"
		}
		changes = append(changes, podChange{pod, after})
	}
	failure := errors.New("no")
	c := fake.NewClientBuilder().WithObjects(pods...).WithStatusSubresource(&corev1.Pod{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if o.GetName() == "p7" {
				return failure
			}
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	}).Build()
	results := newWrites(c).patchAll(t.Context(), changes)
	require.Len(t, results, 20)
	for i, w := range results {
		switch i {
		case 3:
			assert.Same(t, changes[3].before, w.pod, "nothing differs, and nothing was written")
		case 7:
			require.ErrorIs(t, w.err, failure)
			assert.Same(t, changes[7].before, w.pod)
		default:
			require.NoError(t, w.err)
			assert.Equal(t, fmt.Sprintf("p%d", i), w.pod.Name)
			assert.Equal(t, "m", w.pod.Status.Message)
		}
	}
}

func TestManyReportsAreNotLookedAtAllTheTime(t *testing.T) {
	table := newStatusTable(nil, time.Second)
	again := func(reports int) bool {
		require.True(t, table.begin("ada", 1))
		assert.False(t, table.begin("ada", 1), "one look at a time")
		table.done("ada", look{began: time.Now().Add(-time.Minute), took: time.Minute, reports: reports})
		return table.begin("ada", 1)
	}
	assert.True(t, again(many))
	table.done("ada", look{began: time.Now()})
	assert.False(t, again(many+1), "a look of a minute is followed by some minutes of rest")
	assert.True(t, table.begin("bob", 1), "another user's are his own")
}

func TestAnInventoryIsSummedUpOnce(t *testing.T) {
	inv := wlm.Inventory{Partitions: []wlm.Partition{{Name: "batch", Default: true}, {Name: "gpu"}}}
	for i := range 1000 {
		inv.Partitions[0].Nodes = append(inv.Partitions[0].Nodes, wlm.Node{Name: fmt.Sprintf("n%d", i), CPUs: 4 + i%2})
	}
	inv.Partitions[1].Nodes = []wlm.Node{{Name: "g1", CPUs: 8, GPUs: 2, Gres: "gpu:h100:2"}}
	sums := &summaries{}
	s := sums.get(inv)
	assert.Same(t, s, sums.get(inv))
	assert.Equal(t, []translate.Resources{{CPUs: 4}, {CPUs: 5}}, s.kinds["batch"], "each kind once")
	assert.Equal(t, []string{"h100"}, s.gpuTypes)
	assert.Equal(t, 5, s.nodes["n7"].CPUs)

	other := wlm.Inventory{Partitions: []wlm.Partition{{Name: "batch"}}}
	assert.Empty(t, sums.get(other).kinds["batch"])
	assert.Empty(t, sums.get(wlm.Inventory{}).gpuTypes)
}
