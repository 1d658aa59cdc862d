package provider

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// countingReader counts what is read of a fake API server.
func countingReader(t *testing.T, fail *error, objects ...client.Object) (client.Client, *int) {
	t.Helper()
	reads := 0
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads++
			if *fail != nil {
				return *fail
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	return c, &reads
}

func TestObjectsAreReadOnceForAll(t *testing.T) {
	ctx := t.Context()
	changing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "changing"}, Data: map[string]string{"k": "1"}}
	fixed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fixed"}, Immutable: ptr.To(true)}
	var fail error
	api, reads := countingReader(t, &fail, changing, fixed)
	clock := clocktesting.NewFakePassiveClock(testNow)
	c := newObjects(api, clock, 30*time.Second)
	name := func(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }
	after := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

	for range 3 {
		m, err := read[corev1.ConfigMap](ctx, c, name("changing"), 30*time.Second)
		require.NoError(t, err)
		assert.Equal(t, "1", m.Data["k"])
	}
	assert.Equal(t, 1, *reads)
	require.NoError(t, api.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "changing"}, Data: map[string]string{"k": "2"}}))
	after(10 * time.Second)
	m, err := read[corev1.ConfigMap](ctx, c, name("changing"), 30*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "1", m.Data["k"], "young enough to follow changes")
	m, err = read[corev1.ConfigMap](ctx, c, name("changing"), time.Second)
	require.NoError(t, err)
	assert.Equal(t, "2", m.Data["k"], "too old for a start")
	assert.Equal(t, 2, *reads)

	for _, age := range []time.Duration{time.Second, 30 * time.Second, 30 * time.Second} {
		after(31 * time.Second)
		_, err = read[corev1.Secret](ctx, c, name("fixed"), age)
		require.NoError(t, err)
	}
	assert.Equal(t, 3, *reads, "what is immutable is not read again")
	after(time.Second + time.Millisecond)
	_, err = read[corev1.Secret](ctx, c, name("fixed"), time.Second)
	require.NoError(t, err)
	assert.Equal(t, 4, *reads, "but for a start: another may have its name")

	s, err := read[corev1.Secret](ctx, c, name("changing"), time.Second)
	require.NoError(t, err)
	assert.Nil(t, s, "a name is one of a kind")
	fail = errors.New("the API server is away")
	_, err = read[corev1.ConfigMap](ctx, c, name("changing"), time.Second)
	assert.ErrorIs(t, err, fail)
	fail = nil
	m, err = read[corev1.ConfigMap](ctx, c, name("changing"), time.Second)
	require.NoError(t, err)
	assert.NotNil(t, m, "a failed read is not remembered")
	assert.Len(t, c.entries, 3)
	after(2 * time.Minute)
	_, err = read[corev1.Secret](ctx, c, name("other"), time.Second)
	require.NoError(t, err)
	assert.Len(t, c.entries, 1, "what nobody asks for is forgotten")
}

func TestAStartingPodSeesWhatWasThereBeforeIt(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(testNow)
	r := &Reconciler{objects: newObjects(nil, clock, time.Minute)}
	created := func(ago time.Duration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(testNow.Add(-ago))}}
	}
	in := newInputs(r, translate.Site{})
	assert.Equal(t, startAge, in.age(created(time.Hour)), "pods that start together share one look")
	assert.Equal(t, 500*time.Millisecond, in.age(created(1500*time.Millisecond)), "what was read before it does not count")
	assert.LessOrEqual(t, in.age(created(0)), time.Duration(0))
	clock.SetTime(testNow.Add(300 * time.Millisecond))
	assert.Equal(t, 300*time.Millisecond, in.age(created(0)), "the pods of one look share what it has read")
	assert.Equal(t, time.Minute, (&inputs{r: r, maxAge: time.Minute}).age(created(0)), "one that runs follows")
}

func TestTokensAreRenewedInTime(t *testing.T) {
	pod := translatetest.MakePod("p").Obj()
	clock := clocktesting.NewFakePassiveClock(testNow)
	asked := 0
	var fail error
	tk := newTokens(nil, clock)
	tk.request = func(_ context.Context, namespace, account string, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		assert.Equal(t, "default/default", namespace+"/"+account)
		assert.Equal(t, &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p", UID: pod.UID}, r.Spec.BoundObjectRef)
		asked++
		r = r.DeepCopy()
		r.Status.Token = string(rune('0' + asked))
		r.Status.ExpirationTimestamp = metav1.NewTime(clock.Now().Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second))
		return r, fail
	}
	get := func(key translate.TokenKey) string {
		t.Helper()
		value, err := tk.of(t.Context(), pod, key)
		require.NoError(t, err)
		return value
	}
	hour := translate.TokenKey{ExpirationSeconds: 3600}
	assert.Equal(t, "1", get(hour))
	clock.SetTime(testNow.Add(48*time.Minute - tokenJitter - time.Second))
	assert.Equal(t, "1", get(hour), "before 80 % of its lifetime")
	assert.Equal(t, "2", get(translate.TokenKey{Audience: "vault", ExpirationSeconds: 3600}), "another audience, another token")
	clock.SetTime(testNow.Add(48 * time.Minute))
	fail = errors.New("the API server is away")
	assert.Equal(t, "1", get(hour), "it is still valid")
	fail = nil
	assert.Equal(t, "4", get(hour))
	fail = errors.New("the API server is away")
	clock.SetTime(testNow.Add(3 * time.Hour))
	_, err := tk.of(t.Context(), pod, hour)
	assert.ErrorContains(t, err, "asking for a token of ServiceAccount default/default")
	fail = nil

	week := translate.TokenKey{ExpirationSeconds: 7 * 86400}
	first := get(week)
	clock.SetTime(clock.Now().Add(24*time.Hour - tokenJitter - time.Second))
	assert.Equal(t, first, get(week))
	clock.SetTime(clock.Now().Add(tokenJitter + time.Second))
	assert.NotEqual(t, first, get(week), "after a day at the latest")
	tk.forget(pod.UID)
	assert.Empty(t, tk.pods)
}

func TestTheTokensOfALargeGangAreNotRenewedAllAtOnce(t *testing.T) {
	c := newScene(t)
	clock := clocktesting.NewFakePassiveClock(testNow)
	r := &Reconciler{updates: newUpdates(), tokens: newTokens(nil, clock), objects: newObjects(nil, clock, time.Minute)}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
	in, now := newInputs(r, translate.Site{}), 0
	for range 50 {
		p := c.worker(0)
		p.pod = translatetest.MakePod("p").Volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{token},
		}}).Mount("v", "/v").Obj()
		last := &lastUpdate{due: testNow.Add(time.Minute)}
		if r.mayRenew(c.s, p, last, in) {
			now++
			continue
		}
		assert.Equal(t, testNow.Add(renewAgain), last.due)
	}
	assert.Equal(t, renewalsAtOnce, now)
	assert.Equal(t, renewAgain, c.s.recheck)
}

func TestGangsHaveTurnsOfTheirOwn(t *testing.T) {
	const every = 30 * time.Second
	offsets := map[time.Duration]bool{}
	for _, gang := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		turn := nextTurn(gang, testNow, every)
		assert.True(t, turn.After(testNow) && !turn.After(testNow.Add(every)))
		assert.Equal(t, turn.Add(every), nextTurn(gang, turn, every), "at the same pace, whenever it is asked")
		assert.Equal(t, turn, nextTurn(gang, turn.Add(-time.Millisecond), every))
		offsets[turn.Sub(testNow).Truncate(time.Second)] = true
	}
	assert.Greater(t, len(offsets), 4, "not all at once")
}

func TestAPodsVolumesAreLookedAtWhenItChangesOrInTurn(t *testing.T) {
	c := newScene(t)
	p := c.worker(0)
	p.pod = translatetest.MakePod("p").Label("a", "1").
		Volume("v", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}).Mount("v", "/v").Obj()
	r := &Reconciler{updates: newUpdates(), config: Config{Volumes: VolumesConfig{RefreshInterval: metav1.Duration{Duration: time.Minute}}}}
	last := r.updates.of(p.uid())
	due := func() bool { return r.volumesDue(c.s, p, last) }

	assert.False(t, due(), "this process is new, as after a restart")
	turn := last.due
	assert.Equal(t, turn.Sub(testNow), c.s.recheck)
	assert.False(t, due())
	p.pod = p.pod.DeepCopy()
	p.pod.Labels["a"] = "2"
	assert.True(t, due(), "its labels have changed")
	assert.False(t, due())
	c.s.now = turn
	assert.True(t, due())
	assert.Equal(t, turn.Add(30*time.Second), last.due)

	p.pod.Spec.Volumes = nil
	c.s.now = turn.Add(time.Hour)
	assert.False(t, due(), "nothing of it can change")
}

// Keys and the gang's table are for orders: a refresh of all pods of a large gang does
// without them.
func TestARefreshNeedsThePodAndItsNodeOnly(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	p := c.worker(0)
	c.started(p, 0)
	p.slot = 0
	c.s.reports[0].Agent.Node = "n1"
	p.pod = translatetest.MakePod("p").Volume("v", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{Path: "cpus", ResourceFieldRef: &corev1.ResourceFieldSelector{
			ContainerName: "main", Resource: "limits.cpu", Divisor: resource.MustParse("1"),
		}}},
	}}).Mount("v", "/v").Obj()
	p.pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	var fail error
	api, _ := countingReader(t, &fail)
	r := &Reconciler{
		client: api, objects: newObjects(api, clocktesting.NewFakePassiveClock(testNow), time.Minute),
		hpc: func() hpcView {
			return hpcView{inventory: wlm.Inventory{Partitions: []wlm.Partition{{Nodes: []wlm.Node{{Name: "n1", CPUs: 7}}}}}}
		},
	}
	volumes, missing, err := r.refresh(t.Context(), c.s, p)
	require.NoError(t, err)
	assert.Empty(t, missing)
	require.Len(t, volumes, 1)
	assert.Equal(t, "7", string(volumes[0].Files[0].Data), "all that its node has")
}

func TestNothingIsSubmittedForAPodWhoseClaimIsNotUsable(t *testing.T) {
	c := newScene(t)
	p, q := c.worker(0), c.worker(1)
	s := c.decide()
	require.True(t, s.mustSubmit())
	q.unusable = &translate.MissingError{Volume: "v", Unattached: true, Message: "PVC is not bound"}
	s = c.decide()
	assert.False(t, s.mustSubmit())
	q.unusable = nil
	p.unusable = &translate.MissingError{}
	p.pod.Status.Phase = corev1.PodFailed
	assert.False(t, c.s.unusableClaims(), "who has failed waits for nothing")
}

func TestAPodWaitsForClaimsThatCannotBeRead(t *testing.T) {
	c := newScene(t)
	p := c.worker(0)
	c.worker(1)
	p.pod = translatetest.MakePod("p").Volume("v", corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}).Mount("v", "/v").Obj()
	p.pod.Finalizers = []string{wellknown.Finalizer}
	fail := errors.New("forbidden")
	api, _ := countingReader(t, &fail)
	r := &Reconciler{objects: newObjects(api, clocktesting.NewFakePassiveClock(testNow), time.Minute)}
	r.gatherClaims(t.Context(), c.s)
	require.NotNil(t, p.unusable)
	assert.Equal(t, "v", p.unusable.Volume)
	assert.Contains(t, p.unusable.Message, "failed to fetch PVC from API server")
	assert.Contains(t, p.unusable.Message, "forbidden")
	assert.False(t, c.decide().mustSubmit())
}

func TestConfigOfVolumesIsChecked(t *testing.T) {
	c := VolumesConfig{RefreshInterval: metav1.Duration{Duration: time.Second}, Claims: []translate.ClaimRule{{Path: "/a"}}}
	err := c.validate()
	assert.ErrorContains(t, err, "volumes.refreshInterval must be 2s or more")
	assert.ErrorContains(t, err, "one of storageClass, csiDriver, nfs and hostPath")
}

func TestTheSettingsInTheDocumentAreValid(t *testing.T) {
	text, err := os.ReadFile("../docs/storage.md")
	require.NoError(t, err)
	rules, seen := 0, map[string]bool{}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, "kind: ") {
			continue // an object of Kubernetes'
		}
		var c Config
		require.NoError(t, yaml.UnmarshalStrict([]byte(block), &c), block)
		c.setDefaults()
		require.NoError(t, errors.Join(c.Volumes.validate(), c.Environment.Validate(), c.Limits.Validate()), block)
		assert.Empty(t, c.Resources.Problems())
		assert.Equal(t, 30*time.Second, c.Volumes.turn())
		rules += len(c.Volumes.Claims)
		first, _, _ := strings.Cut(block, ":")
		seen[first] = true
	}
	assert.Equal(t, 6, rules)
	assert.Equal(t, map[string]bool{"hostPaths": true, "volumes": true, "environment": true, "limits": true, "resources": true}, seen)
}
