package provider

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

// orderScene is a running allocation all of whose agents have reported, and a late pod of
// its gang. The API server takes so many writes.
func orderScene(t *testing.T, writes *int) (*Reconciler, *scene, *podState) {
	t.Helper()
	c := newScene(t)
	a := c.allocated(wlm.PhaseRunning)
	key, err := spool.NewKey()
	require.NoError(t, err)
	for k := range c.s.reports {
		c.s.reports[k].Agent = spool.Agent{Instance: "i", Address: "10.0.0.1", Node: "n1", Recipient: key.Recipient()}
	}
	p := c.launcher()
	p.pod.Finalizers = nil
	api := fake.NewClientBuilder().WithObjects(p.pod.DeepCopy()).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
			if *writes--; *writes < 0 {
				return errors.New("the API server is away")
			}
			return c.Patch(ctx, o, patch) // the real one takes more than the status as well
		},
	}).Build()
	counted, err := metrics.NewNode(prometheus.NewRegistry(), metrics.Sources{})
	require.NoError(t, err)
	r := &Reconciler{
		client: api, registry: newRegistry(c.names()), people: &people{only: "u"}, writes: newWrites(api), objects: newObjects(api, clock.RealClock{}, time.Minute),
		updates: newUpdates(), keys: keySource{secret: make([]byte, 32)}, hpc: func() hpcView { return hpcView{} },
		recorder: record.NewFakeRecorder(100), metrics: counted, kind: "Slurm",
	}
	r.config.Volumes.RefreshInterval.Duration = time.Minute
	r.registry.add(a)
	return r, c, p
}

// Should the node die and the spool be lost, the API server alone tells what may run a pod.
func TestAPodGetsNoOrdersBeforeTheAPIServerKnowsItsPlace(t *testing.T) {
	for sentence, tc := range map[string]struct {
		writes   int
		accepted bool
		ordered  bool
	}{
		"a new pod whose first write fails":                 {writes: 0},
		"a new pod is ordered to run in its first look":     {writes: 1, ordered: true},
		"an accepted pod whose place cannot be written":     {writes: 0, accepted: true},
		"an accepted pod waits until its place is there":    {writes: 1, accepted: true},
		"a new pod, and nothing is in the API server's way": {writes: 9, ordered: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			writes := 9
			r, c, p := orderScene(t, &writes)
			if tc.accepted {
				after := p.pod.DeepCopy()
				after.Finalizers = []string{wellknown.Finalizer}
				pod, err := r.writes.patch(t.Context(), p.pod, after)
				require.NoError(t, err)
				p.pod = pod
			}
			a := c.s.alloc
			look := func() (ordered bool) {
				_ = r.act(t.Context(), c.decide()) // a write that fails has the gang looked at again
				known := &corev1.Pod{}
				require.NoError(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(p.pod), known))
				p.pod = known
				ordered = a.desired[p.slot].PodUID == string(p.uid())
				if ordered {
					assert.Equal(t, a.name(), known.Annotations[wellknown.AnnotationAllocation])
				}
				return ordered
			}
			writes = tc.writes
			assert.Equal(t, tc.ordered, look())
			writes = 9
			look()
			assert.True(t, look(), "it runs in the end")
		})
	}
}
