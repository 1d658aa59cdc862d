package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// cluster is an API server with these objects, in which everything is installed
// but what is named.
func cluster(t *testing.T, missing string, objects ...client.Object) *owners {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientscheme.AddToScheme(scheme))
	require.NoError(t, jobset.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return newOwners(c, c, func(types.UID) (string, bool) { return "", false },
		func(kind schema.GroupVersionKind) (bool, error) { return kind.Kind != missing, nil })
}

// owner is an object of a kind that need not be installed.
func owner(kind schema.GroupVersionKind, name string, spec map[string]any) client.Object {
	u := objectOf(kind)
	u.SetNamespace(metav1.NamespaceDefault)
	u.SetName(name)
	u.SetUID(types.UID("uid-" + name))
	u.Object["spec"] = spec
	return u
}

func controlledBy(o client.Object, kind schema.GroupVersionKind) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)}
}

func TestMembers(t *testing.T) {
	groups := map[string]schema.GroupVersionKind{}
	for _, k := range translate.PodGroupKinds() {
		groups[k.Name] = k.GVK
	}
	mpiJob := owner(mpiJobKind(), "pi", map[string]any{})
	js := translatetest.MakeJobSet("js").Jobs("worker", 1, 2, translatetest.MakePod("p").Obj()).Obj()
	job := func(name string, refs []metav1.OwnerReference) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID("uid-" + name), OwnerReferences: refs,
			Labels: map[string]string{jobset.ReplicatedJobNameKey: "worker", jobset.JobIndexKey: "0"},
		}}
	}
	jobKind, jobSetKind := batchv1.SchemeGroupVersion.WithKind("Job"), jobset.SchemeGroupVersion.WithKind("JobSet")
	launcherJob, workerJob := job("pi-launcher", controlledBy(mpiJob, mpiJobKind())), job("js-worker-0", controlledBy(js, jobSetKind))
	plainJob := job("plain", nil)
	objects := []client.Object{
		mpiJob, js, launcherJob, workerJob, plainJob,
		owner(lwsKind(), "llm", map[string]any{}),
		owner(groups["kubernetes"], "own", map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}}),
		owner(groups["kubernetes"], "basic", map[string]any{"schedulingPolicy": map[string]any{"basic": map[string]any{}}}),
		owner(groups["scheduler-plugins"], "ring", map[string]any{"minMember": int64(2)}),
		owner(groups["volcano"], "vol", map[string]any{"minMember": int64(2)}),
	}
	inGroup := func(name string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To(name)}
		}
	}
	pod := func() *translatetest.PodBuilder { return translatetest.MakePod("p") }
	owned := func(b *translatetest.PodBuilder, by client.Object, kind schema.GroupVersionKind) *corev1.Pod {
		p := b.Obj()
		p.OwnerReferences = controlledBy(by, kind)
		return p
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		key  string
		role translate.Role
	}{
		"a pod alone": {pod().Obj(), "pod/p-uid", translate.Role{}},
		"an MPIJob's worker": {
			owned(pod().Label(wellknown.LabelTrainingJobRole, "worker").Label(wellknown.LabelTrainingReplicaIndex, "1"), mpiJob, mpiJobKind()),
			"mpijob/uid-pi", translate.Role{Group: "worker", Index: 1},
		},
		"an MPIJob's launcher, which is a Job's pod": {
			owned(pod().Label(wellknown.LabelTrainingJobRole, "launcher"), launcherJob, jobKind),
			"mpijob/uid-pi", translate.Role{Group: "launcher"},
		},
		"a LeaderWorkerSet's worker": {
			pod().Label(wellknown.LabelLWSName, "llm").Label(wellknown.LabelLWSGroupIndex, "4").Label(wellknown.LabelLWSWorkerIndex, "2").Obj(),
			"lws/uid-llm/4/", translate.Role{Group: "worker", Index: 2},
		},
		"a pod of a LeaderWorkerSet that does not exist": {
			pod().Label(wellknown.LabelLWSName, "no").Label(wellknown.LabelLWSGroupIndex, "4").Label(wellknown.LabelLWSWorkerIndex, "2").Obj(),
			"absent/LeaderWorkerSet.leaderworkerset.x-k8s.io/default/no", translate.Role{},
		},
		"Kubernetes' own PodGroup":             {pod().Spec(inGroup("own")).Obj(), "podgroup/kubernetes/uid-own", translate.Role{}},
		"one that asks for no gang":            {pod().Spec(inGroup("basic")).Obj(), "pod/p-uid", translate.Role{}},
		"one that does not exist":              {pod().Spec(inGroup("no")).Obj(), "absent/PodGroup.scheduling.k8s.io/default/no", translate.Role{}},
		"scheduler-plugins' PodGroup":          {pod().Label(wellknown.LabelPodGroup, "ring").Obj(), "podgroup/scheduler-plugins/uid-ring", translate.Role{}},
		"Volcano's PodGroup":                   {pod().Annotation(wellknown.AnnotationVolcanoGroup, "vol").Obj(), "podgroup/volcano/uid-vol", translate.Role{}},
		"a Job's pods in a PodGroup":           {owned(pod().Label(wellknown.LabelPodGroup, "ring"), plainJob, jobKind), "podgroup/scheduler-plugins/uid-ring", translate.Role{}},
		"a JobSet comes before a PodGroup":     {owned(pod().Label(wellknown.LabelPodGroup, "ring"), workerJob, jobKind), "jobset/uid-js/0", translate.Role{Group: "worker"}},
		"and an annotated gang before all":     {owned(pod().Annotation(wellknown.AnnotationGangName, "mine"), workerJob, jobKind), "named/default/mine/uid-js-worker-0", translate.Role{}},
		"a pod whose Job is gone is an orphan": {owned(pod().Label(wellknown.LabelPodGroup, "ring"), job("gone", nil), jobKind), "orphan/p-uid", translate.Role{}},
		"so is one whose MPIJob is gone":       {owned(pod(), owner(mpiJobKind(), "other", nil), mpiJobKind()), "orphan/p-uid", translate.Role{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := cluster(t, "", objects...)
			m, err := o.resolve(t.Context(), c.pod)
			require.NoError(t, err)
			assert.Equal(t, c.key, m.key)
			assert.Equal(t, c.role, m.role)
			assert.NoError(t, o.declare(t.Context(), &state{key: m.key}, m.owner, translate.Options{
				Selects: func(corev1.PodSpec) bool { return true },
			}), "its key is understood")
		})
	}
}

func TestAKindThatIsNotInstalledIsAbsent(t *testing.T) {
	o := cluster(t, "PodGroup")
	m, err := o.resolve(t.Context(), translatetest.MakePod("p").Label(wellknown.LabelPodGroup, "ring").Obj())
	require.NoError(t, err)
	s := &state{key: m.key}
	require.NoError(t, o.declare(t.Context(), s, m.owner, translate.Options{}))
	assert.Equal(t, "there is no PodGroup default/ring (scheduling.x-k8s.io); create it, or make the pod without it", s.noPlace().Message)
	assert.Equal(t, wellknown.ReasonWaitingForGang, s.noPlace().Reason)
}

func TestAPodMovesToItsGroupOnceThatExists(t *testing.T) {
	o := cluster(t, "")
	pod := translatetest.MakePod("p").Annotation(wellknown.AnnotationVolcanoGroup, "ring").Obj()
	before, err := o.resolve(t.Context(), pod)
	require.NoError(t, err)
	group := owner(translate.PodGroupKinds()[2].GVK, "ring", map[string]any{"minMember": int64(1)})
	require.NoError(t, o.cache.(client.Client).Create(t.Context(), group))
	after, err := o.again(t.Context(), pod)
	require.NoError(t, err)
	assert.Equal(t, "podgroup/volcano/uid-ring", after.key)
	assert.Empty(t, o.members(before.key))
	assert.Len(t, o.members(after.key), 1)
	known, err := o.resolve(t.Context(), pod)
	require.NoError(t, err)
	assert.Equal(t, after, known)
}
